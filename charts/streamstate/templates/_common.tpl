{{/* The objects of every release, apart from its pods. */}}
{{- define "streamstate.common" -}}
apiVersion: v1
kind: ServiceAccount
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
automountServiceAccountToken: false
---
{{ include "streamstate.configmap" . }}
---
{{ include "streamstate.accessSecrets" . }}
---
apiVersion: v1
kind: Service
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  selector: {{- include "streamstate.answering" . | nindent 4 }}
  ports:
    - name: http
      port: {{ include "streamstate.apiPort" . }}
      targetPort: http
---
{{- /* A DNS name for each pod, ready or not: a pod that is not ready can still be read. */}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "streamstate.pods" . }}
  labels:
    {{- include "streamstate.labels" . | nindent 4 }}
    {{- include "streamstate.headless" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "streamstate.answering" . | nindent 4 }}
  ports:
    - name: http
      port: {{ include "streamstate.apiPort" . }}
      targetPort: http
    - name: probes
      port: {{ include "streamstate.probePort" . }}
      targetPort: probes
    {{- if and (hasKey .Values "stream") (not (hasKey .Values.api "replicas")) }}
    - name: status
      port: {{ include "streamstate.statusPort" . }}
      targetPort: status
    {{- end }}
---
{{- if .Values.podDisruptionBudget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable | toJson }}
  selector:
    matchLabels: {{- include "streamstate.answering" . | nindent 6 }}
{{- end }}
---
{{ include "streamstate.networkPolicy" . }}
---
{{ include "streamstate.serviceMonitor" . }}
---
{{ include "streamstate.test" . }}
{{- end }}

{{/* A Role and its RoleBinding. Takes a dict: root, rules (text). */}}
{{- define "streamstate.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{- include "streamstate.metadata" .root | nindent 2 }}
rules: {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{- include "streamstate.metadata" .root | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "streamstate.name" .root }}
subjects:
  - kind: ServiceAccount
    name: {{ include "streamstate.name" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
