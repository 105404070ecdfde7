{{/*
What pods connect to, who may connect to them, and with which files. The files are Secrets, mounted at
/etc/streamstate/NAME; the processes read them again when they change.
*/}}
{{- define "streamstate.transportSettings" -}}
{{- with .Values.kafka }}
STREAMSTATE_KAFKA: {{ .bootstrap | quote }}
STREAMSTATE_KAFKA_SECURITY: {{ .security }}
{{- if hasPrefix "SASL_" .security }}
STREAMSTATE_KAFKA_MECHANISM: {{ .mechanism }}
{{- if eq .mechanism "AWS_MSK_IAM" }}
STREAMSTATE_KAFKA_REGION: {{ required "kafka.region is needed for AWS_MSK_IAM" .region }}
{{- else }}
STREAMSTATE_KAFKA_USERNAME: {{ required "kafka.username is needed for SASL" .username | quote }}
{{- $_ := required "kafka.passwordSecret.name is needed for SASL" .passwordSecret.name }}
STREAMSTATE_KAFKA_PASSWORD: /etc/streamstate/kafka-password/{{ .passwordSecret.key }}
{{- end }}
{{- with .tokenUrl }}
STREAMSTATE_KAFKA_TOKEN_URL: {{ . | quote }}
{{- end }}
{{- with .scope }}
STREAMSTATE_KAFKA_SCOPE: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .properties }}
STREAMSTATE_KAFKA_PROPERTIES: {{ toJson . | quote }}
{{- end }}
{{- with .sourceProperties }}
STREAMSTATE_KAFKA_SOURCE_PROPERTIES: {{ toJson . | quote }}
{{- end }}
{{- if .caSecret.name }}
STREAMSTATE_KAFKA_CA: /etc/streamstate/kafka-ca/{{ .caSecret.key }}
{{- end }}
{{- if .certificateSecret.name }}
STREAMSTATE_KAFKA_CERTIFICATE: /etc/streamstate/kafka/{{ .certificateSecret.certificate }}
STREAMSTATE_KAFKA_KEY: /etc/streamstate/kafka/{{ .certificateSecret.key }}
{{- end }}
{{- end }}
{{- with .Values.redis }}
STREAMSTATE_REDIS: {{ .url | quote }}
{{- end }}
{{- with (.Values.access | default dict).limitsRedis }}
{{- if .url }}
STREAMSTATE_LIMITS_REDIS: {{ .url | quote }}
{{- end }}
{{- end }}
{{- with .Values.redis | default (.Values.access | default dict).limitsRedis }}
{{- if .username }}
STREAMSTATE_REDIS_USERNAME: {{ .username | quote }}
{{- end }}
{{- if .passwordSecret.name }}
STREAMSTATE_REDIS_PASSWORD: /etc/streamstate/redis-password/{{ .passwordSecret.key }}
{{- end }}
{{- if .sentinelPasswordSecret.name }}
STREAMSTATE_REDIS_SENTINEL_PASSWORD: /etc/streamstate/redis-sentinel-password/{{ .sentinelPasswordSecret.key }}
{{- end }}
{{- if .caSecret.name }}
STREAMSTATE_REDIS_CA: /etc/streamstate/redis-ca/{{ .caSecret.key }}
{{- end }}
{{- if .certificateSecret.name }}
STREAMSTATE_REDIS_CERTIFICATE: /etc/streamstate/redis/{{ .certificateSecret.certificate }}
STREAMSTATE_REDIS_KEY: /etc/streamstate/redis/{{ .certificateSecret.key }}
{{- end }}
{{- end }}
{{- with .Values.registry }}
STREAMSTATE_REGISTRY: {{ .url | quote }}
{{- if .username }}
STREAMSTATE_REGISTRY_USERNAME: {{ .username | quote }}
{{- end }}
{{- if .passwordSecret.name }}
STREAMSTATE_REGISTRY_PASSWORD: /etc/streamstate/registry-password/{{ .passwordSecret.key }}
{{- end }}
{{- if .caSecret.name }}
STREAMSTATE_REGISTRY_CA: /etc/streamstate/registry-ca/{{ .caSecret.key }}
{{- end }}
{{- end }}
{{- with .Values.tls }}
{{- if .certificateSecret.name }}
STREAMSTATE_TLS_CERTIFICATE: /etc/streamstate/tls/{{ .certificateSecret.certificate }}
STREAMSTATE_TLS_KEY: /etc/streamstate/tls/{{ .certificateSecret.key }}
{{- end }}
{{- if .clientCaSecret.name }}
STREAMSTATE_TLS_CLIENT_CA: /etc/streamstate/tls-client-ca/{{ .clientCaSecret.key }}
{{- end }}
{{- with .instances }}
{{- if .caSecret.name }}
STREAMSTATE_INSTANCES_CA: /etc/streamstate/instances-ca/{{ .caSecret.key }}
{{- end }}
{{- if .certificateSecret.name }}
STREAMSTATE_INSTANCES_CERTIFICATE: /etc/streamstate/instances/{{ .certificateSecret.certificate }}
STREAMSTATE_INSTANCES_KEY: /etc/streamstate/instances/{{ .certificateSecret.key }}
{{- end }}
{{- if .name }}
STREAMSTATE_INSTANCES_NAME: {{ .name | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Secrets that are mounted: {name: Secret}, as JSON. */}}
{{- define "streamstate.secretFiles" -}}
{{- $redis := .Values.redis | default (.Values.access | default dict).limitsRedis | default dict -}}
{{- $tls := .Values.tls | default (dict "instances" dict) -}}
{{- $all := dict
  "redis-password" $redis.passwordSecret
  "redis-sentinel-password" $redis.sentinelPasswordSecret
  "redis-ca" $redis.caSecret
  "redis" $redis.certificateSecret
  "tls" $tls.certificateSecret
  "tls-client-ca" $tls.clientCaSecret
  "instances-ca" $tls.instances.caSecret
  "instances" $tls.instances.certificateSecret
-}}
{{- with .Values.kafka }}
{{- $_ := set $all "kafka-ca" .caSecret }}
{{- $_ := set $all "kafka" .certificateSecret }}
{{- if hasPrefix "SASL_" .security }}{{ $_ := set $all "kafka-password" .passwordSecret }}{{ end }}
{{- end }}
{{- with .Values.registry }}
{{- $_ := set $all "registry-password" .passwordSecret }}
{{- $_ := set $all "registry-ca" .caSecret }}
{{- end }}
{{- with .Values.archive }}{{ $_ := set $all "archive" .credentialsSecret }}{{ end }}
{{- $files := dict }}
{{- range $name, $secret := $all }}
{{- with ($secret | default dict).name }}{{ $_ := set $files $name . }}{{ end }}
{{- end }}
{{- toJson $files }}
{{- end }}

{{- define "streamstate.scheme" -}}
{{ empty .Values.tls.certificateSecret.name | ternary "http" "https" }}
{{- end }}

{{/* What driver and executors encrypt with: made once, and kept as it is by later upgrades. */}}
{{- define "streamstate.sparkSecret" -}}
{{- with .Values.stream.executors }}
{{- if and .count (not .secret.name) }}
{{- $name := include "streamstate.sparkSecretName" $ }}
{{- $found := lookup "v1" "Secret" $.Release.Namespace $name }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $name }}
  labels: {{- include "streamstate.labels" $ | nindent 4 }}
data:
  {{ .secret.key }}: {{ dig "data" .secret.key (randAlphaNum 48 | b64enc) $found }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.sparkSecretName" -}}
{{ .Values.stream.executors.secret.name | default (printf "%s-spark" (include "streamstate.name" .)) }}
{{- end }}

{{- define "streamstate.sparkSecretMount" -}}
{{- if .Values.stream.executors.count }}
- name: spark-secret
  mountPath: /etc/streamstate/spark
  readOnly: true
{{- end }}
{{- end }}

{{- define "streamstate.sparkSecretVolume" -}}
{{- if .Values.stream.executors.count }}
- name: spark-secret
  secret:
    secretName: {{ include "streamstate.sparkSecretName" . }}
    items:
      - {key: {{ .Values.stream.executors.secret.key }}, path: secret}
{{- end }}
{{- end }}
