{{- define "streamstate.notes" -}}
{{- $name := include "streamstate.name" . -}}
{{- $owner := and (hasKey .Values "stream") (not (hasKey .Values.api "replicas")) -}}
{{- $pods := printf "%s/%s" ($owner | ternary "statefulset" "deployment") $name -}}
{{ .Chart.Name }} is installed as {{ .Release.Name }}. It is ready when

  kubectl -n {{ .Release.Namespace }} rollout status {{ $pods }}

ends. To ask it from here:

  kubectl -n {{ .Release.Namespace }} port-forward service/{{ $name }} 8080:{{ .Values.service.port | int64 }} &
  curl {{ include "streamstate.scheme" . }}://127.0.0.1:8080{{ .Values.test.path }}
  curl {{ include "streamstate.scheme" . }}://127.0.0.1:8080/readyz          what it still waits for, if anything

{{- if hasKey .Values.access "keysSecret" }}
{{- if .Values.access.enabled }}
Callers send a key: -H "Authorization: Bearer $KEY".
{{- if not .Values.access.keysSecret.name }} That of an admin is

  kubectl -n {{ .Release.Namespace }} get secret {{ include "streamstate.keysSecret" . }} -o jsonpath='{.data.admin-key}' | base64 -d
{{- end }}
{{- else }}
ACCESS IS OFF: everybody who reaches it is answered (access.enabled).
{{- end }}
{{- else if .Values.access.enabled }}
Instances answer the gateway only: send -H "X-Instance-Token: $TOKEN", from the Secret {{ .Values.access.internalSecret.name }}.
{{- end }}

  helm -n {{ .Release.Namespace }} test {{ .Release.Name }}       asks the same, in the cluster
{{- if hasKey .Values "stream" }}
{{- with .Values.kafka }}

It reads Kafka at {{ .bootstrap }}{{ end }} as the consumer group {{ .Values.settings.GROUP | default $name }}; records that it cannot use go to the topic {{ $name }}-dlq.
How far it is, and what it refuses:

  kubectl -n {{ .Release.Namespace }} exec {{ $pods }} -c api -- streamstate status
{{- end }}
{{- end }}
