{{/* The operators' command, at a time that is set or by `kubectl create job --from`. */}}
{{- define "streamstate.job" -}}
{{- with .Values.job }}
{{- if .command }}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "streamstate.name" $ }}-command
  labels: {{- include "streamstate.labels" $ | nindent 4 }}
spec:
  {{- /* Kubernetes asks for a time even where none is meant. */}}
  schedule: {{ .schedule | default "@yearly" | quote }}
  suspend: {{ empty .schedule }}
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 0
      template: {{- include "streamstate.pod" (dict
          "root" $
          "labels" (include "streamstate.selector" $)
          "containers" (include "streamstate.commandContainer" $)
          "token" false
          "restartPolicy" "Never"
        ) | nindent 8 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.commandContainer" -}}
- name: command
  image: {{ include "streamstate.apiImage" . | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  command: {{ prepend .Values.job.command "streamstate" | toJson }}
  envFrom: {{- include "streamstate.envFrom" . | nindent 4 }}
  {{- with include "streamstate.extraEnv" . }}
  env: {{- . | nindent 4 }}
  {{- end }}
  resources: {{- toYaml .Values.job.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts: {{- include "streamstate.mounts" . | nindent 4 }}
{{- end }}
