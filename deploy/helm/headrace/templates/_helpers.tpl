{{/* The name of everything: the release's. */}}
{{- define "headrace.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "headrace.selector" -}}
app.kubernetes.io/name: headrace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headrace.labels" -}}
{{ include "headrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "headrace.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "headrace.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The worker's file as JSON: no sign of a value can end its line. */}}
{{- define "headrace.worker" -}}
{{- $own := dict
  "rest.listen" "0.0.0.0:8083"
  "rest.auth.file" "/etc/headrace/secret/rest-accounts"
  "rest.advertised.host.name" "${env:POD_IP}"
  "http.listen" "0.0.0.0:8085"
  "state.dir" "/var/lib/headrace" -}}
{{- merge $own .Values.worker | toPrettyJson -}}
{{- end -}}
