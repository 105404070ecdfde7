{{/* What leads to the gateway from outside of the cluster. It answers every path, so all are its own. */}}
{{- define "streamstate.ingress" -}}
{{- with .Values.ingress }}
{{- if .enabled }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "streamstate.metadata" $ | nindent 2 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .tls }}
  tls: {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    {{- range .hosts | default (list "") }}
    - http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: {{ include "streamstate.name" $ }}
                port:
                  name: http
      {{- with . }}
      host: {{ . | quote }}
      {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.httpRoute" -}}
{{- with .Values.httpRoute }}
{{- if .enabled }}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  {{- include "streamstate.metadata" $ | nindent 2 }}
  {{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if not .parentRefs }}{{ fail "httpRoute.parentRefs names the Gateway, as in [{name: company}]" }}{{ end }}
  parentRefs: {{- toYaml .parentRefs | nindent 4 }}
  {{- with .hostnames }}
  hostnames: {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - backendRefs:
        - name: {{ include "streamstate.name" $ }}
          port: {{ $.Values.service.port | int64 }}
{{- end }}
{{- end }}
{{- end }}
