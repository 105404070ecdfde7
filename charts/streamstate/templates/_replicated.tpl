{{/*
A service whose instances answer for any key. The stream is a StatefulSet, because it owns partitions by its name; the
API is a Deployment, so that the two are scaled apart.
*/}}
{{- define "streamstate.replicated" -}}
{{ include "streamstate.common" . }}
---
{{ include "streamstate.streamRole" . }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ include "streamstate.name" . }}-stream
  labels: {{- include "streamstate.labels" . | nindent 4 }}
spec:
  serviceName: {{ include "streamstate.name" . }}-stream
  {{- if not .Values.autoscaling.enabled }}
  replicas: {{ .Values.replicas | int64 }}
  {{- end }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- include "streamstate.folding" . | nindent 6 }}
  template: {{- include "streamstate.pod" (dict
      "root" .
      "labels" (include "streamstate.folding" .)
      "containers" (include "streamstate.streamContainer" .)
      "token" (gt (int .Values.stream.executors.count) 0)
      "volumes" (include "streamstate.streamVolumes" .)
    ) | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "streamstate.name" . }}-stream
  labels:
    {{- include "streamstate.labels" . | nindent 4 }}
    {{- include "streamstate.headless" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "streamstate.folding" . | nindent 4 }}
  ports:
    - name: status
      port: {{ include "streamstate.statusPort" . }}
      targetPort: status
---
{{ include "streamstate.budget" (dict
  "root" . "name" (printf "%s-stream" (include "streamstate.name" .)) "labels" (include "streamstate.folding" .)) }}
---
{{ include "streamstate.deployment" (dict
  "root" . "replicas" (.Values.api.autoscaling.enabled | ternary nil .Values.api.replicas) "token" false) }}
---
{{ include "streamstate.cpuScaling" (dict "root" . "scaling" .Values.api.autoscaling) }}
---
{{ include "streamstate.scaledObject" . }}
---
{{ include "streamstate.job" . }}
---
{{ include "streamstate.unload" . }}
{{- end }}

{{- define "streamstate.folding" -}}
{{ include "streamstate.selector" . }}
streamstate/folds: "true"
{{- end }}

{{/* The API as a Deployment. Takes a dict: root, replicas (none: an autoscaler's), token. */}}
{{- define "streamstate.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata: {{- include "streamstate.metadata" .root | nindent 2 }}
spec:
  {{- with .replicas }}
  replicas: {{ . | int64 }}
  {{- end }}
  strategy:
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels: {{- include "streamstate.answering" .root | nindent 6 }}
  template: {{- include "streamstate.pod" (dict
      "root" .root
      "labels" (include "streamstate.answering" .root)
      "containers" (include "streamstate.apiContainer" .root)
      "token" .token
    ) | nindent 4 }}
{{- end }}
