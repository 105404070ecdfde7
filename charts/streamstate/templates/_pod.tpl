{{/*
A pod template. Takes a dict: root, labels (text), containers (text), token (whether it may ask the API server); volumes
(text) and restartPolicy, if any.
*/}}
{{- define "streamstate.pod" -}}
{{- $values := .root.Values -}}
metadata:
  labels: {{- .labels | nindent 4 }}
    app.kubernetes.io/part-of: streamstate
    {{- with $values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    checksum/config: {{ include "streamstate.settings" .root | sha256sum }}
    {{- with $values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "streamstate.name" .root }}
  automountServiceAccountToken: {{ .token }}
  {{- /* A Service called streamstate-x would add variables that are no settings, and end the processes. */}}
  enableServiceLinks: false
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds | int64 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- .labels | nindent 10 }}
  containers: {{- .containers | nindent 4 }}
  volumes: {{- include "streamstate.volumes" .root | nindent 4 }}
    {{- include "streamstate.accessVolumes" .root | nindent 4 }}
    {{- with .volumes }}{{ . | nindent 4 }}{{ end }}
{{- end }}
