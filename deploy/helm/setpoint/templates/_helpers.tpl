{{/* The name of the objects. */}}
{{- define "setpoint.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "objects can't be called %q: a Service's name has a-z, 0-9 and dashes, and begins with a letter; set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Labels that select the pods of a component: (list $ "name"). */}}
{{- define "setpoint.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end -}}

{{/* Labels of the pods of a component: (list $ "name"). */}}
{{- define "setpoint.podLabels" -}}
{{ include "setpoint.selector" . }}
app.kubernetes.io/part-of: setpoint
{{- end -}}

{{/* Labels of an object of a component: (list $ "name"). */}}
{{- define "setpoint.labels" -}}
{{ include "setpoint.podLabels" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Environment variables of flags: a dictionary of flags and values. Numbers come as floating-point
ones, and a million would be written 1e+06. */}}
{{- define "setpoint.settings" -}}
{{- range $flag, $value := . }}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}{{ $value = int64 $value }}{{ end }}
- {name: {{ printf "SETPOINT_%s" ($flag | replace "-" "_" | upper) }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end -}}

{{/* Refuses settings that a value of the chart has: (list "service" .Values.service.settings (dict "flag" "value")). */}}
{{- define "setpoint.ownSettings" -}}
{{- $at := index . 0 }}{{ $settings := index . 1 }}
{{- range $flag, $value := index . 2 }}
{{- if hasKey $settings $flag }}
{{- fail (printf "%s.settings can't have %s: the chart sets it (%s)" $at $flag $value) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* How long Kubernetes waits for a pod that stops, in seconds: what it waits itself, and some. (list SETTINGS MORE) */}}
{{- define "setpoint.grace" -}}
{{- $now := toDate "2006-01-02" "2006-01-02" }}{{ $end := $now }}{{ $settings := index . 0 | default dict }}
{{- range $flag, $default := dict "shutdown-delay" "0s" "drain-timeout" "20s" }}
{{- $end = $end | dateModify (get $settings $flag | default $default | toString) }}
{{- end }}
{{- add (sub ($end | unixEpoch | int64) ($now | unixEpoch | int64)) (index . 1) }}
{{- end -}}

{{/* What every pod is kept to: (list $ USER). OpenShift gives each namespace users of its own, and takes no others. */}}
{{- define "setpoint.podSecurity" -}}
runAsNonRoot: true
{{- if not ((index . 0).Capabilities.APIVersions.Has "security.openshift.io/v1") }}
runAsUser: {{ index . 1 }}
runAsGroup: {{ index . 1 }}
fsGroup: {{ index . 1 }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "setpoint.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where pods run: (list $ .Values.service), with "name" spread over nodes. */}}
{{- define "setpoint.scheduling" -}}
{{- $root := index . 0 }}{{ $values := index . 1 }}
{{- range slice . 2 }}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "setpoint.selector" (list $root .) | nindent 6 }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The gRPC address that this chart's programs call. */}}
{{- define "setpoint.server" -}}
{{- if and (not .Values.service.enabled) (not .Values.agent.server) -}}
{{- fail "service.enabled=false needs agent.server, the gRPC address of the service" -}}
{{- end -}}
{{- .Values.agent.server | default (printf "dns:///%s-grpc:9090" (include "setpoint.name" .)) -}}
{{- end -}}

{{- define "setpoint.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The setting by which Redis takes three quarters of its container's memory limit, or all that there is. */}}
{{- define "setpoint.maxmemory" -}}
{{- $limit := default "" (get (default dict .limits) "memory") }}
{{- if not (kindIs "string" $limit) }}{{ $limit = printf "%.0f" (float64 $limit) }}{{ end }}
{{- $units := dict "" 1.0 "k" 1e3 "Ki" 1024.0 "M" 1e6 "Mi" 1048576.0 "G" 1e9 "Gi" 1073741824.0 "T" 1e12 "Ti" 1099511627776.0 }}
{{- $unit := get $units (regexFind "[A-Za-z]*$" $limit) }}
{{- if and $unit (regexMatch "^[0-9.]+[A-Za-z]*$" $limit) }}maxmemory {{ printf "%dmb" (int64 (divf (mulf (float64 (regexFind "^[0-9.]+" $limit)) $unit 0.75) 1048576.0)) }}{{ else }}maxmemory 0{{ end }}
{{- end }}
