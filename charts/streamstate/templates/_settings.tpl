{{/*
Settings, apart from secrets. The checksum of settings and profile in the pods' annotations rolls the pods after a change.
*/}}
{{- define "streamstate.settings" -}}
{{- if hasKey .Values "api" }}
STREAMSTATE_LISTEN: "*:{{ include "streamstate.apiPort" . }}"
STREAMSTATE_PROBE_PORT: {{ include "streamstate.probePort" . | quote }}
STREAMSTATE_WORKERS: {{ .Values.api.workers | int64 | quote }}
STREAMSTATE_ACCESS: {{ .Values.access.enabled | ternary "required" "off" | quote }}
{{- if .Values.access.enabled }}
STREAMSTATE_INTERNAL_TOKENS: /etc/streamstate/internal/tokens
{{- end }}
{{- if hasKey .Values.access "keysSecret" }}
STREAMSTATE_LIMITS_PREFIX: {{ include "streamstate.name" . }}
{{- if .Values.access.enabled }}
STREAMSTATE_ACCESS_KEYS: /etc/streamstate/keys/keys
{{- end }}
{{- end }}
{{- end }}
{{- if hasKey .Values "archive" }}{{ include "streamstate.archiveSettings" . }}{{ end }}
{{- include "streamstate.transportSettings" . }}
{{- if hasKey .Values "topics" }}
STREAMSTATE_NAME: {{ include "streamstate.name" . }}
STREAMSTATE_TOPICS: {{ .Values.topics | toJson | quote }}
STREAMSTATE_FORMATS: {{ .Values.formats | toJson | quote }}
STREAMSTATE_TRUNCATED_TOPICS: {{ .Values.truncatedTopics | toJson | quote }}
{{- end }}
{{- if hasKey .Values "services" }}
STREAMSTATE_SERVICES: {{ include "streamstate.watched" . | quote }}
STREAMSTATE_NAMESPACE: {{ .Release.Namespace }}
{{- end }}
{{- with .Values.kept }}
STREAMSTATE_KEPT: {{ toJson . | quote }}
{{- end }}
{{- if .Values.profile }}
STREAMSTATE_PROFILE: /etc/streamstate/profile/profile.yaml
{{- end }}
{{- /* As JSON, unless it is a string: Helm reads a number as a float, which quote would print as 2e+06. */}}
{{- range $name, $value := .Values.settings }}
STREAMSTATE_{{ $name }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}

{{- define "streamstate.configmap" -}}
apiVersion: v1
kind: ConfigMap
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
data: {{- include "streamstate.settings" . | nindent 2 }}
{{- with .Values.profile }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "streamstate.profile" $ }}
  labels: {{- include "streamstate.labels" $ | nindent 4 }}
data:
  profile.yaml: {{ toRawJson . }}
{{- end }}
{{- end }}

{{/* The ConfigMap of the declared profile. */}}
{{- define "streamstate.profile" -}}
{{ include "streamstate.name" . }}-profile
{{- end }}

{{/* The environment of every container. Secrets are files. */}}
{{- define "streamstate.envFrom" -}}
- configMapRef:
    name: {{ include "streamstate.name" . }}
{{- end }}

{{- define "streamstate.extraEnv" -}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "streamstate.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- range $name, $_ := include "streamstate.secretFiles" . | fromJson }}
- name: {{ $name }}
  mountPath: /etc/streamstate/{{ $name }}
  readOnly: true
{{- end }}
{{- if .Values.profile }}
- name: profile
  mountPath: /etc/streamstate/profile
  readOnly: true
{{- end }}
{{- if and (hasKey .Values "archive") (not .Values.archive.uri) }}
- name: archive
  mountPath: /archive
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "streamstate.volumes" -}}
- name: tmp
  emptyDir:
    medium: Memory
    sizeLimit: 256Mi
{{- range $name, $secret := include "streamstate.secretFiles" . | fromJson }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret }}
{{- end }}
{{- if .Values.profile }}
- name: profile
  configMap:
    name: {{ include "streamstate.profile" . }}
{{- end }}
{{- if and (hasKey .Values "archive") (not .Values.archive.uri) }}
- name: archive
  persistentVolumeClaim:
    claimName: {{ .Values.archive.volume.claim | default (include "streamstate.name" .) }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
