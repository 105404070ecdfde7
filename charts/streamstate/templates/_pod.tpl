{{/*
A pod template. Takes a dict: root, labels (text), containers (text), token (whether it may ask the API server); volumes
and initContainers (text) and restartPolicy, if any.
*/}}
{{- define "streamstate.pod" -}}
{{- $values := .root.Values -}}
metadata:
  labels: {{- .labels | nindent 4 }}
    app.kubernetes.io/part-of: streamstate
    {{- with $values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ print (include "streamstate.settings" .root) ($values.profile | default "") | sha256sum }}
    {{- with $values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "streamstate.name" .root }}
  automountServiceAccountToken: {{ .token }}
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds | int64 }}
  {{- include "streamstate.placement" .root | nindent 2 }}
  {{- $selector := dict "labelSelector" (dict "matchLabels" (fromYaml .labels)) }}
  {{- with $values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{- merge (deepCopy .) $selector | toYaml | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- with .initContainers }}
  initContainers: {{- . | nindent 4 }}
  {{- end }}
  containers: {{- .containers | nindent 4 }}
  volumes: {{- include "streamstate.volumes" .root | nindent 4 }}
    {{- include "streamstate.accessVolumes" .root | nindent 4 }}
    {{- with .volumes }}{{ . | nindent 4 }}{{ end }}
{{- end }}

{{/* What all pods have in common, tests and executors too: what they may, and where they run. */}}
{{- define "streamstate.placement" -}}
{{- /* A Service called streamstate-x would add variables that are no settings, and end the processes. */ -}}
enableServiceLinks: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $name }}
{{ $name }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
