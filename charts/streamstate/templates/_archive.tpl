{{/* Archivers: a StatefulSet, since each owns partitions by its name. */}}
{{- define "streamstate.archive" -}}
{{ include "streamstate.serviceAccount" . }}
---
{{ include "streamstate.configmap" . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "streamstate.pods" . }}
  labels:
    {{- include "streamstate.labels" . | nindent 4 }}
    {{- include "streamstate.headless" . | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "streamstate.archiving" . | nindent 4 }}
  ports:
    - name: status
      port: {{ include "streamstate.statusPort" . }}
      targetPort: status
---
{{ include "streamstate.budget" (dict "root" . "name" (include "streamstate.name" .) "labels" (include "streamstate.archiving" .)) }}
---
{{ include "streamstate.networkPolicy" . }}
---
{{ include "streamstate.serviceMonitor" . }}
---
{{ include "streamstate.archiveClaim" . }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{- include "streamstate.metadata" . | nindent 2 }}
spec:
  serviceName: {{ include "streamstate.pods" . }}
  replicas: {{ .Values.replicas | int64 }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- include "streamstate.archiving" . | nindent 6 }}
  template: {{- include "streamstate.pod" (dict
      "root" .
      "labels" (include "streamstate.archiving" .)
      "containers" (include "streamstate.archiverContainer" .)
      "token" false
    ) | nindent 4 }}
---
{{ include "streamstate.job" . }}
{{- end }}

{{- define "streamstate.archiving" -}}
{{ include "streamstate.selector" . }}
streamstate/archives: "true"
{{- end }}

{{- define "streamstate.archiveSettings" -}}
{{- with .Values.archive }}
STREAMSTATE_ARCHIVE: {{ .uri | default "/archive" | quote }}
STREAMSTATE_ARCHIVE_TOPICS: {{ .topics | toJson | quote }}
STREAMSTATE_ARCHIVE_GROUP: {{ include "streamstate.name" $ }}
STREAMSTATE_DELETIONS: {{ .deletions | quote }}
STREAMSTATE_FORMATS: {{ .formats | toJson | quote }}
{{- if .credentialsSecret.name }}
AWS_SHARED_CREDENTIALS_FILE: /etc/streamstate/archive/{{ .credentialsSecret.key }}
{{- end }}
{{- end }}
{{- end }}

{{/* A claim outlives the release: it has the only copy of what Kafka deleted. */}}
{{- define "streamstate.archiveClaim" -}}
{{- with .Values.archive }}
{{- if not (or .uri .volume.claim) }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  {{- include "streamstate.metadata" $ | nindent 2 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  accessModes: [{{ .volume.accessMode }}]
  {{- with .volume.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .volume.size }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.archiverContainer" -}}
- name: archiver
  image: {{ include "streamstate.apiImage" . | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  command: [python, -m, services.archive]
  envFrom: {{- include "streamstate.envFrom" . | nindent 4 }}
  env:
    - name: STREAMSTATE_INSTANCE
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: STREAMSTATE_STATUS_HOST
      value: "*"
    - name: STREAMSTATE_STATUS_PORT
      value: {{ include "streamstate.statusPort" . | quote }}
    {{- include "streamstate.extraEnv" . | nindent 4 }}
  ports:
    - name: status
      containerPort: {{ include "streamstate.statusPort" . }}
  startupProbe:
    httpGet: {path: /livez, port: status}
    periodSeconds: 2
    failureThreshold: 60
  readinessProbe:
    httpGet: {path: /readyz, port: status}
    periodSeconds: 5
    timeoutSeconds: 5
  livenessProbe:
    httpGet: {path: /livez, port: status}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  resources: {{- toYaml .Values.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts: {{- include "streamstate.mounts" . | nindent 4 }}
{{- end }}

{{- define "streamstate.archiveNotes" -}}
{{- $name := include "streamstate.name" . -}}
{{ .Chart.Name }} is installed as {{ .Release.Name }}. It archives {{ len .Values.archive.topics }} topics to {{ .Values.archive.uri | default "its volume" }}.
{{- if not .Values.archive.topics }}
IT WAITS FOR TOPICS: name them in archive.topics.
{{- end }}
It is ready when

  kubectl -n {{ .Release.Namespace }} rollout status statefulset/{{ $name }}

ends. What the archive has, and whether Kafka agrees:

  kubectl -n {{ .Release.Namespace }} exec {{ $name }}-0 -- streamstate archive list
  kubectl -n {{ .Release.Namespace }} exec {{ $name }}-0 -- streamstate archive verify
{{- end }}
