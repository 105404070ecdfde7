{{/* The operators' command, at a time that is set or by `kubectl create job --from`. */}}
{{- define "streamstate.job" -}}
{{- with .Values.job }}
{{- if .command }}
{{- include "streamstate.cronJob" (dict
    "root" $
    "name" "command"
    "schedule" .schedule
    "containers" (include "streamstate.commandContainer" $)
  ) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The answers of views for all keys, as Parquet files. */}}
{{- define "streamstate.unload" -}}
{{- with .Values.unload }}
{{- if .schedule }}
{{- if not (and .views .to) }}
{{- fail "unload.schedule needs unload.views and unload.to" }}
{{- end }}
{{- include "streamstate.cronJob" (dict
    "root" $
    "name" "unload"
    "schedule" .schedule
    "initContainers" (include "streamstate.redisTools" $)
    "containers" (include "streamstate.unloadContainer" $)
    "volumes" (include "streamstate.unloadVolumes" $)
  ) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Takes a dict: root, name, schedule, containers (text); initContainers and volumes (text), if any. */}}
{{- define "streamstate.cronJob" -}}
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ include "streamstate.name" .root }}-{{ .name }}
  labels: {{- include "streamstate.labels" .root | nindent 4 }}
spec:
  {{- /* Kubernetes asks for a time even where none is meant. */}}
  schedule: {{ .schedule | default "@yearly" | quote }}
  suspend: {{ empty .schedule }}
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 0
      template: {{- include "streamstate.pod" (merge (dict
          "labels" (include "streamstate.selector" .root)
          "token" false
          "restartPolicy" "Never"
        ) .) | nindent 8 }}
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

{{/* The image of the stream has Arrow, and the image of Redis a server that loads the snapshots of its own release. */}}
{{- define "streamstate.unloadContainer" -}}
- name: unload
  image: {{ include "streamstate.streamImage" . | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  command: {{ concat (list "streamstate" "unload" .Chart.Name) .Values.unload.views (list "--if-live" "--to" .Values.unload.to) | toJson }}
  envFrom: {{- include "streamstate.envFrom" . | nindent 4 }}
  env:
    - name: PATH
      value: /scratch/bin:/usr/local/bin:/usr/bin:/bin
    - name: TMPDIR
      value: /scratch
    {{- with include "streamstate.extraEnv" . }}{{ . | nindent 4 }}{{ end }}
  resources: {{- toYaml .Values.unload.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - name: scratch
      mountPath: /scratch
    {{- include "streamstate.mounts" . | nindent 4 }}
{{- end }}

{{- define "streamstate.redisTools" -}}
- name: redis
  image: {{ .Values.unload.redisImage | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  command: [sh, -c, mkdir /scratch/bin && cp "$(command -v redis-server)" "$(command -v redis-cli)" /scratch/bin]
  resources: {{- toYaml .Values.unload.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - name: scratch
      mountPath: /scratch
{{- end }}

{{- define "streamstate.unloadVolumes" -}}
- name: scratch
  emptyDir:
    sizeLimit: {{ .Values.unload.scratch }}
{{- end }}
