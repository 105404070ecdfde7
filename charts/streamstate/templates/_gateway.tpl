{{/* The gateway. Its token may only list and watch EndpointSlices, by which it knows the instances. */}}
{{- define "streamstate.gateway" -}}
{{ include "streamstate.common" . }}
---
{{ include "streamstate.deployment" (dict
  "root" . "replicas" (.Values.autoscaling.enabled | ternary nil .Values.replicas) "token" true) }}
---
{{ include "streamstate.role" (dict "root" . "rules" (include "streamstate.watchRules" .)) }}
---
{{- if .Values.autoscaling.enabled }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "streamstate.name" . }}
  minReplicas: {{ .Values.autoscaling.min | int64 }}
  maxReplicas: {{ .Values.autoscaling.max | int64 }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .Values.autoscaling.cpu | int64 }}
{{- end }}
{{- end }}

{{/* The Kubernetes Service of each service, as JSON. */}}
{{- define "streamstate.watched" -}}
{{- $watched := dict }}
{{- range $service, $release := .Values.services }}{{ $_ := set $watched $service (printf "%s-pods" $release) }}{{ end }}
{{- toJson $watched }}
{{- end }}

{{- define "streamstate.watchRules" -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end }}
