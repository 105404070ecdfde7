{{/* What is no secret: a ConfigMap. Its checksum in the pods' annotations rolls them when a setting changes. */}}
{{- define "streamstate.settings" -}}
STREAMSTATE_KAFKA: {{ .Values.kafka.bootstrap | quote }}
STREAMSTATE_KAFKA_SECURITY: {{ .Values.kafka.security }}
{{- if hasPrefix "SASL_" .Values.kafka.security }}
STREAMSTATE_KAFKA_MECHANISM: {{ .Values.kafka.mechanism }}
STREAMSTATE_KAFKA_USERNAME: {{ required "kafka.username is needed for SASL" .Values.kafka.username | quote }}
{{- end }}
{{- if .Values.kafka.caSecret.name }}
STREAMSTATE_KAFKA_CA: /etc/streamstate/kafka-ca/{{ .Values.kafka.caSecret.key }}
{{- end }}
{{- with .Values.kafka.certificateSecret }}
{{- if .name }}
STREAMSTATE_KAFKA_CERTIFICATE: /etc/streamstate/kafka/{{ .certificate }}
STREAMSTATE_KAFKA_KEY: /etc/streamstate/kafka/{{ .key }}
{{- end }}
{{- end }}
{{- with .Values.redis }}
{{- if not .urlSecret.name }}
STREAMSTATE_REDIS: {{ .url | quote }}
{{- end }}
{{- end }}
{{- if hasKey .Values "topics" }}
STREAMSTATE_NAME: {{ .Release.Name }}
STREAMSTATE_TOPICS: {{ .Values.topics | toJson | quote }}
{{- end }}
{{- if hasKey .Values "services" }}
STREAMSTATE_SERVICES: {{ include "streamstate.watched" . | quote }}
STREAMSTATE_NAMESPACE: {{ .Release.Namespace }}
{{- end }}
{{- with .Values.kept }}
STREAMSTATE_KEPT: {{ toJson . | quote }}
{{- end }}
{{- range $name, $value := .Values.settings }}
STREAMSTATE_{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "streamstate.configmap" -}}
apiVersion: v1
kind: ConfigMap
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
data: {{- include "streamstate.settings" . | nindent 2 }}
{{- end }}

{{/* The environment of every container: settings, and secrets by reference. */}}
{{- define "streamstate.envFrom" -}}
- configMapRef:
    name: {{ include "streamstate.name" . }}
{{- end }}

{{- define "streamstate.secrets" -}}
{{- if hasPrefix "SASL_" .Values.kafka.security }}
- name: STREAMSTATE_KAFKA_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ required "kafka.passwordSecret.name is needed for SASL" .Values.kafka.passwordSecret.name }}
      key: {{ .Values.kafka.passwordSecret.key }}
{{- end }}
{{- with .Values.redis }}
{{- if .urlSecret.name }}
- name: STREAMSTATE_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ .urlSecret.name }}
      key: {{ .urlSecret.key }}
{{- end }}
{{- end }}
{{- end }}

{{/* Files from secrets: {mount path: secret name}, as JSON. */}}
{{- define "streamstate.secretFiles" -}}
{{- $files := dict }}
{{- with .Values.kafka.caSecret.name }}{{ $_ := set $files "kafka-ca" . }}{{ end }}
{{- with .Values.kafka.certificateSecret.name }}{{ $_ := set $files "kafka" . }}{{ end }}
{{- with .Values.redis }}{{ with .caSecret.name }}{{ $_ := set $files "redis-ca" . }}{{ end }}{{ end }}
{{- toJson $files }}
{{- end }}

{{- define "streamstate.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- range $name, $_ := include "streamstate.secretFiles" . | fromJson }}
- name: {{ $name }}
  mountPath: /etc/streamstate/{{ $name }}
  readOnly: true
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
{{- end }}
