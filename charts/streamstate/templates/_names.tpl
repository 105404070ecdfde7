{{/*
Every object of a release is named after it: `helm install metrics-eu charts/metrics` makes metrics-eu. Where several
charts are one release, each has its own name.
*/}}
{{- define "streamstate.name" -}}
{{ .Values.fullnameOverride | default .Release.Name }}
{{- end }}

{{/* The images are called after the chart, and have its version. */}}
{{- define "streamstate.streamImage" -}}
{{ .Values.stream.image | default (printf "%s-stream:%s" .Chart.Name .Chart.AppVersion) }}
{{- end }}

{{- define "streamstate.apiImage" -}}
{{ (.Values.api | default .Values).image | default (printf "%s-api:%s" .Chart.Name .Chart.AppVersion) }}
{{- end }}

{{/* The headless Service, by which each pod has a DNS name; the gateway watches its endpoints. */}}
{{- define "streamstate.pods" -}}
{{ include "streamstate.name" . }}-pods
{{- end }}

{{- define "streamstate.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "streamstate.labels" -}}
{{ include "streamstate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: streamstate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The label of headless Services. */}}
{{- define "streamstate.headless" -}}
streamstate/headless: "true"
{{- end }}

{{/* The labels of the pods that have an API. */}}
{{- define "streamstate.answering" -}}
{{ include "streamstate.selector" . }}
streamstate/answers: "true"
{{- end }}

{{- define "streamstate.metadata" -}}
name: {{ include "streamstate.name" . }}
labels: {{- include "streamstate.labels" . | nindent 2 }}
{{- end }}

{{- define "streamstate.apiPort" -}}8080{{- end }}
{{- define "streamstate.statusPort" -}}8081{{- end }}
{{- define "streamstate.probePort" -}}8082{{- end }}
{{- define "streamstate.driverPort" -}}7078{{- end }}
{{- define "streamstate.blocksPort" -}}7079{{- end }}
