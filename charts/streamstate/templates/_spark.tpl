{{/*
Executors in their own pods: the stream's pod is the driver in client mode, and creates pods of its own image. With a
count of 0, the stream's pod folds.
*/}}
{{- define "streamstate.sparkEnv" -}}
{{- with .Values.stream.executors }}
{{- if .count }}
- name: STREAMSTATE_MASTER
  value: k8s://https://kubernetes.default.svc
- name: STREAMSTATE_SPARK
  value: {{ include "streamstate.sparkProperties" $ | quote }}
- name: STREAMSTATE_SPARK_SECRET
  value: /etc/streamstate/spark/secret
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.sparkProperties" -}}
{{- $executors := .Values.stream.executors -}}
{{- $own := dict
  "spark.executor.instances" (toString (int64 $executors.count))
  "spark.executor.cores" (toString (int64 $executors.cores))
  "spark.executor.memory" $executors.memory
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.container.image" (include "streamstate.streamImage" .)
  "spark.kubernetes.container.image.pullPolicy" .Values.imagePullPolicy
  "spark.kubernetes.executor.disableConfigMap" "true"
  "spark.kubernetes.executor.podTemplateFile" "/etc/streamstate/executor/pod.yaml"
  "spark.kubernetes.executor.podNamePrefix" "$(STREAMSTATE_INSTANCE)"
  "spark.kubernetes.driver.pod.name" "$(STREAMSTATE_INSTANCE)"
  "spark.driver.host" (printf "$(STREAMSTATE_INSTANCE).%s.%s.svc" (include "streamstate.streamPods" .) .Release.Namespace)
  "spark.driver.bindAddress" "0.0.0.0"
  "spark.driver.port" (include "streamstate.driverPort" .)
  "spark.driver.blockManager.port" (include "streamstate.blocksPort" .)
}}
{{- merge $own (.Values.settings.SPARK | default dict) | toJson }}
{{- end }}

{{/* The headless Service of the pods that have a stream. */}}
{{- define "streamstate.streamPods" -}}
{{ include "streamstate.name" . }}-{{ hasKey .Values.api "replicas" | ternary "stream" "pods" }}
{{- end }}

{{- define "streamstate.executorMount" -}}
{{- if .Values.stream.executors.count }}
- name: executor
  mountPath: /etc/streamstate/executor
  readOnly: true
{{- end }}
{{- include "streamstate.sparkSecretMount" . }}
{{- end }}

{{/* What the driver needs: the pod template of its executors, and the permission to create pods. */}}
{{- define "streamstate.streamRole" -}}
{{- if .Values.stream.executors.count }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "streamstate.name" . }}-executor
  labels: {{- include "streamstate.labels" . | nindent 4 }}
data:
  pod.yaml: |
    {{- include "streamstate.executorPod" . | nindent 4 }}
---
{{ include "streamstate.sparkSecret" . }}
---
{{ include "streamstate.role" (dict "root" . "rules" (include "streamstate.driverRules" .)) }}
---
{{ include "streamstate.driverPolicy" . }}
{{- end }}
{{- end }}

{{- define "streamstate.driverRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, delete, deletecollection]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, deletecollection]
{{- end }}

{{/*
A Role cannot select by label, so the policy does: what the stream's ServiceAccount creates and deletes are executors of
this release, of its image and without a token.
*/}}
{{- define "streamstate.driverPolicy" -}}
{{- if .Values.stream.executors.admissionPolicy }}
{{- $name := printf "%s-%s-executors" .Release.Namespace (include "streamstate.name" .) -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels: {{- include "streamstate.labels" . | nindent 4 }}
spec:
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE, DELETE]
        resources: [pods, persistentvolumeclaims]
  matchConditions:
    - name: by-the-stream
      expression: >-
        request.userInfo.username == "system:serviceaccount:{{ .Release.Namespace }}:{{ include "streamstate.name" . }}"
  variables:
    - name: labels
      expression: "(request.operation == 'DELETE' ? oldObject : object).metadata.?labels.orValue({})"
  validations:
    - expression: >-
        variables.labels[?"spark-role"].orValue("") == "executor" &&
        variables.labels[?"app.kubernetes.io/instance"].orValue("") == "{{ .Release.Name }}"
      message: "{{ include "streamstate.name" . }} may create and delete its own executors only"
    {{- $made := "request.operation == 'DELETE' || request.resource.resource != 'pods' ||" }}
    - expression: >-
        {{ $made }}
        (object.spec.containers.all(container, container.image == "{{ include "streamstate.streamImage" . }}" &&
        !container.?securityContext.?privileged.orValue(false)) &&
        object.spec.?initContainers.orValue([]).size() == 0 && object.spec.?ephemeralContainers.orValue([]).size() == 0)
      message: "executors have the image of the stream, without privileges, and no other containers"
    - expression: >-
        {{ $made }}
        (object.spec.?automountServiceAccountToken.orValue(true) == false &&
        object.spec.?serviceAccountName.orValue("default") == "default")
      message: "executors have the default ServiceAccount, and no token"
    - expression: >-
        {{ $made }}
        !(object.spec.?hostNetwork.orValue(false) || object.spec.?hostPID.orValue(false) ||
        object.spec.?hostIPC.orValue(false) || has(object.spec.nodeName))
      message: "executors are scheduled, and share nothing with their node"
    {{- $executor := include "streamstate.executorPod" . | fromYaml }}
    - expression: >-
        {{ $made }}
        object.spec.?volumes.orValue([]).all(volume,
        {{- range $executor.spec.volumes }}
        (volume.name == "{{ .name }}" && {{ include "streamstate.sameVolume" . }}) ||
        {{- end }}
        false)
      message: "executors have the volumes of the stream's values"
    - expression: >-
        {{ $made }}
        object.spec.containers.all(container, container.?envFrom.orValue([]).size() == 0 &&
        container.?env.orValue([]).all(variable, !has(variable.valueFrom) || has(variable.valueFrom.fieldRef)
        {{- range (first $executor.spec.containers).env }}{{ with dig "valueFrom" "secretKeyRef" "name" "" . }} ||
        variable.valueFrom.?secretKeyRef.name.orValue("") == "{{ . }}"
        {{- end }}{{ end }}))
      message: "executors read the Secrets of the stream's values"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ $name }}
  labels: {{- include "streamstate.labels" . | nindent 4 }}
spec:
  policyName: {{ $name }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ .Release.Namespace }}
{{- end }}
{{- end }}

{{/* Of a volume of the executors: the CEL expression by which another `volume` has its content. */}}
{{- define "streamstate.sameVolume" -}}
{{- $named := dict "secret" "secretName" "configMap" "name" "persistentVolumeClaim" "claimName" "hostPath" "path" -}}
{{- $kind := first (keys (omit . "name")) -}}
has(volume.{{ $kind }})
{{- with index $named $kind }} && volume.{{ $kind }}.{{ . }} == "{{ index $ $kind . }}"{{ end }}
{{- end }}

{{- define "streamstate.executorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "streamstate.selector" . | nindent 4 }}
    app.kubernetes.io/part-of: streamstate
spec:
  automountServiceAccountToken: false
  {{- include "streamstate.placement" . | nindent 2 }}
  containers:
    - name: executor
      command: [python, -m, streamstate.spark.executor]
      # An executor copies its jars to its working directory, and the root file system is read-only.
      workingDir: /scratch
      {{- with include "streamstate.extraEnv" . }}
      env: {{- . | nindent 8 }}
      {{- end }}
      resources: {{- toYaml .Values.stream.executors.resources | nindent 8 }}
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        {{- include "streamstate.mounts" . | nindent 8 }}
        {{- include "streamstate.scratchMount" . | nindent 8 }}
        {{- include "streamstate.sparkSecretMount" . | nindent 8 }}
  volumes:
    {{- include "streamstate.volumes" . | nindent 4 }}
    {{- include "streamstate.scratchVolume" . | nindent 4 }}
    {{- include "streamstate.sparkSecretVolume" . | nindent 4 }}
{{- end }}

{{- define "streamstate.streamVolumes" -}}
{{ include "streamstate.scratchVolume" . }}
{{- if .Values.stream.executors.count }}
- name: executor
  configMap:
    name: {{ include "streamstate.name" . }}-executor
{{- end }}
{{- include "streamstate.sparkSecretVolume" . }}
{{- end }}

{{/* Spark's local directories. By the name, Spark takes the volume of an executor's template for it. */}}
{{- define "streamstate.scratchVolume" -}}
- name: spark-local-dir-1
{{- with .Values.stream.scratch }}
  {{- if .storageClass }}
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: {{ .storageClass }}
        resources:
          requests:
            storage: {{ .size }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .size }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.scratchMount" -}}
- name: spark-local-dir-1
  mountPath: /scratch
{{- end }}
