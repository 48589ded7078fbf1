{{- /* What several templates say alike. Must not make an object. Objects have fixed names: one Stagegate serves one API
server, and two releases in one namespace would be two. */ -}}

{{- /* Those that kustomize gives, too; selectors use the name alone, as they cannot be changed later. */ -}}
{{- define "stagegate.commonLabels" -}}
app.kubernetes.io/name: stagegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: controller
app.kubernetes.io/part-of: stagegate
{{- end }}

{{- define "stagegate.labels" -}}
{{ include "stagegate.commonLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{- define "stagegate.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "stagegate.leaseNamespace" -}}
{{ .Values.lease.namespace | default (eq .Values.install "program" | ternary "stagegate-system" .Release.Namespace) }}
{{- end }}

{{- define "stagegate.serviceAccount" -}}
{{ .Values.serviceAccount.name | default "stagegate" }}
{{- end }}

{{- /* A binding's subject: the service account, by whatever name of its namespace the rights are installed in. */ -}}
{{- define "stagegate.subjects" -}}
- {kind: ServiceAccount, name: {{ include "stagegate.serviceAccount" . }}, namespace: {{ .Release.Namespace }}}
{{- end }}
