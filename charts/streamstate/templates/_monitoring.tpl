{{/* The ServiceMonitor: /metrics of the API and of the stream of each pod. */}}
{{- define "streamstate.serviceMonitor" -}}
{{- if .Values.serviceMonitor.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "streamstate.name" . }}
  labels:
    {{- include "streamstate.labels" . | nindent 4 }}
    {{- with .Values.serviceMonitor.labels }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  selector:
    matchLabels:
      {{- include "streamstate.selector" . | nindent 6 }}
      {{- include "streamstate.headless" . | nindent 6 }}
  endpoints:
    {{- range $port := include "streamstate.scraped" . | fromJsonArray }}
    - port: {{ $port }}
      path: /metrics
      interval: {{ $.Values.serviceMonitor.interval }}
      # The operator labels targets with `service` too: that of the metric counts.
      honorLabels: true
    {{- end }}
{{- end }}
{{- end }}

{{/* The names of the ports with /metrics, as JSON. */}}
{{- define "streamstate.scraped" -}}
{{- $ports := list }}
{{- if hasKey .Values "api" }}{{ $ports = append $ports "probes" }}{{ end }}
{{- if or (hasKey .Values "stream") (hasKey .Values "archive") }}{{ $ports = append $ports "status" }}{{ end }}
{{- toJson $ports }}
{{- end }}
