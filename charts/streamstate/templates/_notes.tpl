{{- define "streamstate.notes" -}}
{{- $owner := and (hasKey .Values "stream") (not (hasKey .Values.api "replicas")) -}}
{{- $pods := printf "%s/%s" ($owner | ternary "statefulset" "deployment") .Release.Name -}}
{{ .Chart.Name }} is installed as {{ .Release.Name }}. It is ready when

  kubectl -n {{ .Release.Namespace }} rollout status {{ $pods }}

ends. To ask it from here:

  kubectl -n {{ .Release.Namespace }} port-forward service/{{ .Release.Name }} 8080:{{ include "streamstate.apiPort" . }} &
  curl http://127.0.0.1:8080{{ .Values.test.path }}
  curl http://127.0.0.1:8080/readyz          what it still waits for, if anything

  helm -n {{ .Release.Namespace }} test {{ .Release.Name }}       asks the same, in the cluster
{{- if hasKey .Values "stream" }}
{{- with .Values.kafka }}

It reads Kafka at {{ .bootstrap }}{{ end }} as the consumer group {{ .Release.Name }}; records that it cannot use go to the topic {{ .Release.Name }}-dlq.
How far it is, and what it refuses:

  kubectl -n {{ .Release.Namespace }} exec {{ $pods }} -c api -- streamstate status
{{- end }}
{{- end }}
