{{/* The gateway. Its token may only list and watch EndpointSlices, by which it knows the instances. */}}
{{- define "streamstate.gateway" -}}
{{ include "streamstate.common" . }}
---
{{ include "streamstate.deployment" (dict
  "root" . "replicas" (.Values.autoscaling.enabled | ternary nil .Values.replicas) "token" true) }}
---
{{ include "streamstate.role" (dict "root" . "rules" (include "streamstate.watchRules" .)) }}
---
{{ include "streamstate.cpuScaling" (dict "root" . "scaling" .Values.autoscaling) }}
---
{{ include "streamstate.ingress" . }}
---
{{ include "streamstate.httpRoute" . }}
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
