{{/*
The Secrets of access that are not given: made once, and kept as they are by later upgrades. Another release may have made
the one that all share; it outlives the release that made it.
*/}}
{{- define "streamstate.accessSecrets" -}}
{{- with .Values.access }}
{{- if and .enabled .internalSecret.generate }}
{{- $found := lookup "v1" "Secret" $.Release.Namespace .internalSecret.name }}
{{- if or (not $found) (eq (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found) $.Release.Name) }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ .internalSecret.name }}
  labels: {{- include "streamstate.labels" $ | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
data:
  {{ .internalSecret.key }}: {{ dig "data" .internalSecret.key (randAlphaNum 48 | b64enc) $found }}
{{- end }}
{{- end }}
---
{{- if and .enabled (hasKey . "keysSecret") (not (.keysSecret | default dict).name) }}
{{- $found := lookup "v1" "Secret" $.Release.Namespace (include "streamstate.keysSecret" $) }}
{{- $key := printf "ssk_%s" (randAlphaNum 43) }}
{{- $line := dict "name" "admin" "sha256" (sha256sum $key) "scopes" (list "admin") | toJson }}
apiVersion: v1
kind: Secret
metadata:
  name: {{ include "streamstate.keysSecret" $ }}
  labels: {{- include "streamstate.labels" $ | nindent 4 }}
data:
  admin-key: {{ dig "data" "admin-key" ($key | b64enc) $found }}
  {{ .keysSecret.key }}: {{ dig "data" .keysSecret.key ($line | b64enc) $found }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.keysSecret" -}}
{{ .Values.access.keysSecret.name | default (printf "%s-keys" (include "streamstate.name" .)) }}
{{- end }}

{{/* The files of access, which only those who need them mount; the key of an admin is not among them. */}}
{{- define "streamstate.accessMounts" -}}
{{- if .Values.access.enabled }}
- name: internal
  mountPath: /etc/streamstate/internal
  readOnly: true
{{- if hasKey .Values.access "keysSecret" }}
- name: keys
  mountPath: /etc/streamstate/keys
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.accessVolumes" -}}
{{- if (.Values.access | default dict).enabled }}
{{ include "streamstate.internalVolume" . }}
{{- with .Values.access.keysSecret }}
- name: keys
  secret:
    secretName: {{ include "streamstate.keysSecret" $ }}
    items:
      - {key: {{ .key }}, path: keys}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.internalVolume" -}}
{{- with .Values.access.internalSecret -}}
- name: internal
  secret:
    secretName: {{ .name }}
    items:
      - {key: {{ .key }}, path: tokens}
{{- end }}
{{- end }}
