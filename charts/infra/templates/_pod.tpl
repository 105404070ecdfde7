{{- define "infra.metadata" -}}
name: {{ .name }}
labels:
  app.kubernetes.io/name: {{ .name }}
  app.kubernetes.io/instance: {{ .root.Release.Name }}
  app.kubernetes.io/part-of: streamstate
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "infra.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "infra.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "infra.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The Secret of a server's TLS, if it has one. */}}
{{- define "infra.tlsMount" -}}
{{- if .tlsSecret -}}
- name: tls
  mountPath: /etc/tls
  readOnly: true
{{- end }}
{{- end }}

{{- define "infra.tlsVolume" -}}
{{- with .tlsSecret }}
- name: tls
  secret:
    secretName: {{ . }}
{{- end }}
{{- end }}

{{/* One server with a volume and a Service. Takes a dict: root, name, port, storage, container (text), volumes (text). */}}
{{- define "infra.server" -}}
apiVersion: v1
kind: Service
metadata: {{- include "infra.metadata" . | nindent 2 }}
spec:
  publishNotReadyAddresses: true
  selector: {{- include "infra.selector" . | nindent 4 }}
  ports:
    - name: {{ .name }}
      port: {{ .port }}
      targetPort: {{ .port }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{- include "infra.metadata" . | nindent 2 }}
spec:
  serviceName: {{ .name }}
  selector:
    matchLabels: {{- include "infra.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "infra.selector" . | nindent 8 }}
        app.kubernetes.io/part-of: streamstate
      annotations:
        checksum/config: {{ .volumes | sha256sum }}
    spec:
      {{- include "infra.podSecurity" . | nindent 6 }}
      terminationGracePeriodSeconds: 30
      containers: {{- .container | nindent 8 }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- with .volumes }}{{ . | nindent 8 }}{{ end }}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        resources:
          requests:
            storage: {{ .storage }}
{{- end }}
