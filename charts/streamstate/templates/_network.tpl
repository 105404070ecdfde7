{{/* Ingress: pods of this project, and `from`. Egress: DNS, pods of this project, and `egressPorts`. */}}
{{- define "streamstate.networkPolicy" -}}
{{- if .Values.networkPolicy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels: {{- include "streamstate.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector:
            matchLabels:
              app.kubernetes.io/part-of: streamstate
    {{- with .Values.networkPolicy.from }}
    - from: {{- toYaml . | nindent 8 }}
    {{- end }}
  egress:
    - ports:
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
    - to:
        - podSelector:
            matchLabels:
              app.kubernetes.io/part-of: streamstate
    - ports:
        {{- range .Values.networkPolicy.egressPorts }}
        - {port: {{ . | int64 }}, protocol: TCP}
        {{- end }}
        {{- if and (hasKey .Values "stream") (.Values.stream).executors.count }}
        {{- /* The API server, which creates the executors. */}}
        - {port: 443, protocol: TCP}
        - {port: 6443, protocol: TCP}
        {{- end }}
{{- end }}
{{- end }}
