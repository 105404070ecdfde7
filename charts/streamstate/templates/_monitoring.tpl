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
    {{- range $port := hasKey .Values "stream" | ternary (list "probes" "status") (list "probes") }}
    - port: {{ $port }}
      path: /metrics
      interval: {{ $.Values.serviceMonitor.interval }}
      # The operator labels targets with `service` too: that of the metric counts.
      honorLabels: true
    {{- end }}
{{- end }}
{{- end }}

{{/* KEDA: instances by the lag of the consumer group. */}}
{{- define "streamstate.scaledObject" -}}
{{- with .Values.autoscaling }}
{{- if .enabled }}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{- include "streamstate.metadata" $ | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: StatefulSet
    name: {{ include "streamstate.name" $ }}{{ if hasKey $.Values.api "replicas" }}-stream{{ end }}
  minReplicaCount: {{ .min | int64 }}
  maxReplicaCount: {{ .max | int64 }}
  triggers:
    - type: kafka
      metadata:
        bootstrapServers: {{ $.Values.kafka.bootstrap | quote }}
        consumerGroup: {{ $.Values.settings.GROUP | default $.Release.Name }}
        {{- with .topic }}
        topic: {{ . }}
        {{- end }}
        lagThreshold: {{ .lagThreshold | int64 | quote }}
      {{- with .authentication }}
      authenticationRef:
        name: {{ . }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}
