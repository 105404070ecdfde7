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
      image: {{ include "streamstate.apiImage" . | quote }}
      imagePullPolicy: {{ .Values.imagePullPolicy }}
      command: [python, -c]
      args:
        - |
          import os, pathlib, ssl, sys, urllib.error, urllib.request
          from streamstate.web.access.internal import HEADER
          url, wanted = sys.argv[1:]
          tokens = pathlib.Path("/etc/streamstate/internal/tokens")
          headers = {HEADER: tokens.read_text().split()[0]} if tokens.exists() else {}
          files = {name: os.environ.get(f"STREAMSTATE_INSTANCES_{name}") for name in ("CA", "CERTIFICATE", "KEY", "NAME")}
          tls = ssl.create_default_context()
          tls.check_hostname = not files["NAME"]
          if files["CA"]:
              tls.load_verify_locations(files["CA"])
          if files["CERTIFICATE"]:
              tls.load_cert_chain(files["CERTIFICATE"], files["KEY"])
          try:
              answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10, context=tls)
          except urllib.error.HTTPError as refusal:
              answer = refusal
          found = answer.read().decode()
          if answer.status != 200 or wanted not in found:
              sys.exit(f"{url} answered {answer.status} {found}, not 200 with {wanted}")
        - {{ include "streamstate.scheme" . }}://{{ include "streamstate.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port | int64 }}{{ .Values.test.path }}
        - {{ .Values.test.contains | quote }}
      resources:
        requests: {cpu: 10m, memory: 64Mi}
        limits: {memory: 128Mi}
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      envFrom: {{- include "streamstate.envFrom" . | nindent 8 }}
      volumeMounts:
        {{- include "streamstate.mounts" . | nindent 8 }}
        {{- if .Values.access.enabled }}
        - name: internal
          mountPath: /etc/streamstate/internal
          readOnly: true
        {{- end }}
  volumes:
    {{- include "streamstate.volumes" . | nindent 4 }}
    {{- if .Values.access.enabled }}
    {{- include "streamstate.internalVolume" . | nindent 4 }}
    {{- end }}
{{- end }}
