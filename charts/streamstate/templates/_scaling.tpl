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
        consumerGroup: {{ $.Values.settings.GROUP | default (include "streamstate.name" $) }}
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

{{/* The API of a Deployment, by CPU usage. Takes a dict: root, scaling. */}}
{{- define "streamstate.cpuScaling" -}}
{{- with .scaling }}
{{- if .enabled }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{- include "streamstate.metadata" $.root | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "streamstate.name" $.root }}
  minReplicas: {{ .min | int64 }}
  maxReplicas: {{ .max | int64 }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .cpu | int64 }}
{{- end }}
{{- end }}
{{- end }}
