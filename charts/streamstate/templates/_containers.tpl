{{/* Ready: the query runs. Live: the loop of the stream makes progress, whether or not Kafka and Redis answer. */}}
{{- define "streamstate.streamContainer" -}}
- name: stream
  image: {{ include "streamstate.streamImage" . | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  envFrom: {{- include "streamstate.envFrom" . | nindent 4 }}
  env:
    {{- include "streamstate.identity" . | nindent 4 }}
    - name: STREAMSTATE_STATUS_HOST
      value: "*"
    - name: STREAMSTATE_STATUS_PORT
      value: {{ include "streamstate.statusPort" . | quote }}
    - name: STREAMSTATE_CHECKPOINTS
      value: /tmp/checkpoints
    - name: SPARK_LOCAL_DIRS
      value: /scratch
    - name: STREAMSTATE_SLOTS
      value: {{ .Values.stream.slots | int64 | quote }}
    - name: STREAMSTATE_DRIVER_MEMORY
      value: {{ .Values.stream.driverMemory | quote }}
    {{- include "streamstate.sparkEnv" . | nindent 4 }}
    {{- include "streamstate.extraEnv" . | nindent 4 }}
  ports:
    - name: status
      containerPort: {{ include "streamstate.statusPort" . }}
    {{- if .Values.stream.executors.count }}
    - name: driver
      containerPort: {{ include "streamstate.driverPort" . }}
    - name: blocks
      containerPort: {{ include "streamstate.blocksPort" . }}
    {{- end }}
  startupProbe:
    httpGet: {path: /livez, port: status}
    periodSeconds: 2
    failureThreshold: 90
  readinessProbe:
    httpGet: {path: /readyz, port: status}
    periodSeconds: 2
    timeoutSeconds: 5
  livenessProbe:
    httpGet: {path: /livez, port: status}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  resources: {{- toYaml .Values.stream.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "streamstate.mounts" . | nindent 4 }}
    {{- include "streamstate.scratchMount" . | nindent 4 }}
    {{- include "streamstate.executorMount" . | nindent 4 }}
{{- end }}

{{- define "streamstate.identity" -}}
- name: STREAMSTATE_INSTANCE
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: STREAMSTATE_ADVERTISE
  value: {{ include "streamstate.advertise" . | quote }}
{{- end }}

{{- define "streamstate.apiEnv" -}}
{{- if hasKey .Values "stream" }}{{ include "streamstate.identity" . }}{{ end }}
{{- include "streamstate.extraEnv" . }}
{{- end }}

{{/* Ready: the state can be read. preStop delays SIGTERM until the endpoints have been updated. */}}
{{- define "streamstate.apiContainer" -}}
- name: api
  image: {{ include "streamstate.apiImage" . | quote }}
  imagePullPolicy: {{ .Values.imagePullPolicy }}
  envFrom: {{- include "streamstate.envFrom" . | nindent 4 }}
  {{- with include "streamstate.apiEnv" . }}
  env: {{- . | nindent 4 }}
  {{- end }}
  ports:
    - name: http
      containerPort: {{ include "streamstate.apiPort" . }}
    - name: probes
      containerPort: {{ include "streamstate.probePort" . }}
  startupProbe:
    httpGet: {path: /livez, port: probes}
    periodSeconds: 1
    failureThreshold: 120
  readinessProbe:
    httpGet: {path: /readyz, port: probes}
    periodSeconds: 2
    timeoutSeconds: 5
  livenessProbe:
    httpGet: {path: /livez, port: probes}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  lifecycle:
    preStop:
      exec:
        command: [sleep, "{{ .Values.api.preStopSeconds | int64 }}"]
  resources: {{- toYaml .Values.api.resources | nindent 4 }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "streamstate.mounts" . | nindent 4 }}
    {{- include "streamstate.accessMounts" . | nindent 4 }}
{{- end }}

{{/*
The address of the owner of a partition: the DNS name of the pod, which stays the same after a restart; or the Service,
where any instance answers for any key.
*/}}
{{- define "streamstate.advertise" -}}
{{- if hasKey .Values.api "replicas" }}{{ include "streamstate.name" . }}
{{- else }}$(STREAMSTATE_INSTANCE).{{ include "streamstate.pods" . }}
{{- end }}.{{ .Release.Namespace }}.svc:
{{- hasKey .Values.api "replicas" | ternary .Values.service.port (include "streamstate.apiPort" .) | int64 }}
{{- end }}
