{{/* The objects of every release, apart from its pods. */}}
{{- define "streamstate.common" -}}
{{ include "streamstate.serviceAccount" . }}
---
{{ include "streamstate.configmap" . }}
---
{{ include "streamstate.accessSecrets" . }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "streamstate.metadata" . | nindent 2 }}
  {{- with .Values.service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .Values.service.type }}
  selector: {{- include "streamstate.answering" . | nindent 4 }}
  ports:
    - name: http
      port: {{ .Values.service.port | int64 }}
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
    {{- /* By this label, the gateway finds a release beside another. */}}
    {{- with (.Values.settings | default dict).RELEASE_OF }}
    streamstate/release-of: {{ . }}
    {{- end }}
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
{{ include "streamstate.budget" (dict "root" . "name" (include "streamstate.name" .) "labels" (include "streamstate.answering" .)) }}
---
{{ include "streamstate.networkPolicy" . }}
---
{{ include "streamstate.serviceMonitor" . }}
---
{{ include "streamstate.test" . }}
{{- end }}

{{- define "streamstate.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "streamstate.metadata" . | nindent 2 }}
  {{- with .Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* A PodDisruptionBudget. Takes a dict: root, name, labels (text) of the pods. */}}
{{- define "streamstate.budget" -}}
{{- with .root.Values.podDisruptionBudget }}
{{- if .enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $.name }}
  labels: {{- include "streamstate.labels" $.root | nindent 4 }}
spec:
  maxUnavailable: {{ .maxUnavailable | toJson }}
  selector:
    matchLabels: {{- $.labels | nindent 6 }}
{{- end }}
{{- end }}
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
