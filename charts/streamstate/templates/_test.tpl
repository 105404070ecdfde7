{{/* `helm test`: sends a GET through the Service, and looks for the expected text in the response. */}}
{{- define "streamstate.test" -}}
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "streamstate.name" . }}-test
  labels:
    {{- include "streamstate.labels" . | nindent 4 }}
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  {{- include "streamstate.placement" . | nindent 2 }}
  containers:
    - name: ask
      image: {{ .Values.api.image | quote }}
      imagePullPolicy: {{ .Values.imagePullPolicy }}
      command: [python, -c]
      args:
        - |
          import pathlib, sys, urllib.error, urllib.request
          from streamstate.access.internal import HEADER
          url, wanted = sys.argv[1:]
          tokens = pathlib.Path("/etc/streamstate/internal/tokens")
          headers = {HEADER: tokens.read_text().split()[0]} if tokens.exists() else {}
          try:
              answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10)
          except urllib.error.HTTPError as refusal:
              answer = refusal
          found = answer.read().decode()
          if answer.status != 200 or wanted not in found:
              sys.exit(f"{url} answered {answer.status} {found}, not 200 with {wanted}")
        - http://{{ include "streamstate.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port | int64 }}{{ .Values.test.path }}
        - {{ .Values.test.contains | quote }}
      resources:
        requests: {cpu: 10m, memory: 64Mi}
        limits: {memory: 128Mi}
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      {{- if .Values.access.enabled }}
      volumeMounts:
        - name: internal
          mountPath: /etc/streamstate/internal
          readOnly: true
  volumes: {{- include "streamstate.internalVolume" . | nindent 4 }}
      {{- end }}
{{- end }}
