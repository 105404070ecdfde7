{{/* A service whose instances own partitions: a StatefulSet, whose pods have a stream and an API. */}}
{{- define "streamstate.owner" -}}
{{- if or .Values.api.replicas .Values.api.autoscaling }}
{{- fail "api.replicas and api.autoscaling are for services any instance of which answers; here, set replicas and autoscaling" }}
{{- end }}
{{ include "streamstate.common" . }}
---
{{ include "streamstate.streamRole" . }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  serviceName: {{ include "streamstate.pods" . }}
  {{- if not .Values.autoscaling.enabled }}
  replicas: {{ .Values.replicas | int64 }}
  {{- end }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- include "streamstate.answering" . | nindent 6 }}
  template: {{- include "streamstate.pod" (dict
      "root" .
      "labels" (include "streamstate.answering" .)
      "containers" (printf "%s\n%s" (include "streamstate.streamContainer" .) (include "streamstate.apiContainer" .))
      "token" (gt (int .Values.stream.executors.count) 0)
      "volumes" (include "streamstate.streamVolumes" .)
    ) | nindent 4 }}
---
{{ include "streamstate.scaledObject" . }}
---
{{ include "streamstate.job" . }}
---
{{ include "streamstate.unload" . }}
{{- end }}
