{{/*
Ingress: the API, from pods of this project in the namespace, and from where the values say; what executors and their
driver say to one another; /metrics. Egress: DNS (5353 on OpenShift), APIs of this project, and the ports that values name.
*/}}
{{- define "streamstate.networkPolicy" -}}
{{- with .Values.networkPolicy }}
{{- if .enabled }}
{{- $executors := gt (int (dig "stream" "executors" "count" 0 $.Values.AsMap)) 0 }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{- include "streamstate.metadata" $ | nindent 2 }}
spec:
  podSelector:
    matchLabels: {{- include "streamstate.selector" $ | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- if hasKey $.Values "api" }}
    - from:
        {{- include "streamstate.project" $ | nindent 8 }}
        {{- with .from }}{{ toYaml . | nindent 8 }}{{ end }}
      ports: {{- include "streamstate.apiPorts" $ | nindent 8 }}
    {{- if and (not .from) (include "streamstate.exposed" $) }}
    - ports: {{- include "streamstate.apiPorts" $ | nindent 8 }}
    {{- end }}
    {{- end }}
    {{- if or .prometheus $.Values.serviceMonitor.enabled }}
    - ports:
        {{- range $port := include "streamstate.scraped" $ | fromJsonArray }}
        - {port: {{ eq $port "status" | ternary (include "streamstate.statusPort" $) (include "streamstate.probePort" $) }}, protocol: TCP}
        {{- end }}
      {{- with .prometheus }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- if $executors }}
    - from: {{- include "streamstate.release" $ | nindent 8 }}
    {{- end }}
  egress:
    - ports:
        {{- range $port := list 53 5353 }}
        - {port: {{ $port }}, protocol: UDP}
        - {port: {{ $port }}, protocol: TCP}
        {{- end }}
    - to: {{- include "streamstate.project" $ | nindent 8 }}
      ports: {{- include "streamstate.apiPorts" $ | nindent 8 }}
    {{- if $executors }}
    - to: {{- include "streamstate.release" $ | nindent 8 }}
    {{- end }}
    {{- with include "streamstate.egressPorts" $ | fromJsonArray }}
    - ports:
        {{- range . }}
        - {port: {{ . }}, protocol: TCP}
        {{- end }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamstate.project" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/part-of: streamstate
{{- end }}

{{- define "streamstate.release" -}}
- podSelector:
    matchLabels: {{- include "streamstate.selector" . | nindent 6 }}
{{- end }}

{{- define "streamstate.apiPorts" -}}
- {port: {{ include "streamstate.apiPort" . }}, protocol: TCP}
{{- end }}

{{/* Whether something outside of the namespace leads to the API. */}}
{{- define "streamstate.exposed" -}}
{{- $leads := list (ne .Values.service.type "ClusterIP") (dig "ingress" "enabled" false .Values.AsMap) (dig "httpRoute" "enabled" false .Values.AsMap) }}
{{- if has true $leads }}yes{{ end }}
{{- end }}

{{/* The ports of other hosts that the values name, as JSON. */}}
{{- define "streamstate.egressPorts" -}}
{{- $ports := list }}
{{- with .Values.kafka }}
{{- range splitList "," .bootstrap }}{{ $ports = append $ports (regexFind "[0-9]+$" .) }}{{ end }}
{{- end }}
{{- $settings := .Values.AsMap }}
{{- $urls := list (dig "redis" "url" "" $settings) (dig "registry" "url" "" $settings) (dig "kafka" "tokenUrl" "" $settings) }}
{{- range concat $urls (list (dig "access" "limitsRedis" "url" "" $settings) (dig "settings" "JWT_JWKS" "" $settings)) }}
{{- $ports = concat $ports (include "streamstate.urlPorts" . | fromJsonArray) }}
{{- end }}
{{- /* Object stores of clouds have the customary port of https, others are named in the URI. */}}
{{- with dig "archive" "uri" "" $settings }}
{{- $ports = append $ports (regexFind "(endpoint_override=[^&]*:)[0-9]+" . | regexFind "[0-9]+$" | default "443") }}
{{- end }}
{{- /* AWS gives credentials for a ServiceAccount. */}}
{{- if eq (dig "kafka" "mechanism" "" $settings) "AWS_MSK_IAM" }}{{ $ports = append $ports "443" }}{{ end }}
{{- /* The API server, which the gateway watches, and which creates executors. */}}
{{- if or (hasKey .Values "services") (dig "stream" "executors" "count" 0 .Values.AsMap) }}{{ $ports = concat $ports (list "443" "6443") }}{{ end }}
{{- range .Values.networkPolicy.egressPorts }}{{ $ports = append $ports (int64 . | toString) }}{{ end }}
{{- without $ports "" | uniq | toJson }}
{{- end }}

{{/* The ports of a URL of one or more hosts, as JSON: those that it names, or the customary one of its scheme. */}}
{{- define "streamstate.urlPorts" -}}
{{- $customary := dict "http" "80" "https" "443" "redis" "6379" "rediss" "6379" -}}
{{- $scheme := regexFind "^[a-z]+" . -}}
{{- $hosts := . | regexFind "://[^/?]*" | trimPrefix "://" -}}
{{- /* Sentinels name the primary, which has one of the customary ports, unless `egressPorts` has its own. */}}
{{- $watched := contains "+sentinel://" . }}
{{- $ports := $watched | ternary (list "6379" "6380") list -}}
{{- range compact (splitList "," $hosts) }}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default ($watched | ternary "26379" (get $customary $scheme))) }}
{{- end }}
{{- $ports | toJson }}
{{- end }}
