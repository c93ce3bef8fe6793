{{/* Names, labels and arguments that several templates use. */}}

{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "holdfast.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.controller.name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selectorLabels" . }}
app.kubernetes.io/part-of: {{ include "holdfast.name" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The admission webhook's Service and Secret. */}}
{{- define "holdfast.webhookName" -}}
{{- printf "%s-admission" (include "holdfast.fullname" .) -}}
{{- end -}}

{{- define "holdfast.electionID" -}}
{{- default (printf "%s-leader" (include "holdfast.fullname" .)) .Values.controller.electionID -}}
{{- end -}}

{{/* The Secret with the account of ACME. */}}
{{- define "holdfast.acmeSecret" -}}
{{- default (printf "%s-acme" (include "holdfast.fullname" .)) .Values.controller.acme.secret -}}
{{- end -}}

{{/* "true" if certificates are ordered. */}}
{{- define "holdfast.acme" -}}
{{- if .Values.controller.acme.directory -}}
{{- if not .Values.controller.updateStatus -}}
{{- fail "controller.acme.directory needs controller.updateStatus: only a leader orders" -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- $image := .Values.controller.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The namespace that is watched; empty: all, or those that a selector finds. */}}
{{- define "holdfast.watchNamespace" -}}
{{- if and .Values.controller.scope.enabled (not .Values.controller.scope.namespaceSelector) -}}
{{- default .Release.Namespace .Values.controller.scope.namespace -}}
{{- end -}}
{{- end -}}

{{/* The namespace of the ConfigMaps: the controller reads objects of the watched namespace alone. */}}
{{- define "holdfast.configNamespace" -}}
{{- default .Release.Namespace (include "holdfast.watchNamespace" .) -}}
{{- end -}}

{{/* The seconds that a Pod gets to end. */}}
{{- define "holdfast.gracePeriod" -}}
{{- $needed := add .Values.controller.shutdownGracePeriodSeconds .Values.controller.workerShutdownTimeoutSeconds -}}
{{- $given := .Values.controller.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $given -}}
{{- add $needed 10 -}}
{{- else if lt (int $given) (int $needed) -}}
{{- fail (printf "controller.terminationGracePeriodSeconds is %d, but shutdownGracePeriodSeconds and workerShutdownTimeoutSeconds need %d: the kubelet would kill a Pod that still finishes requests" (int $given) (int $needed)) -}}
{{- else -}}
{{- int $given -}}
{{- end -}}
{{- end -}}

{{/* "true" if a port of the container is below 1024. */}}
{{- define "holdfast.lowPort" -}}
{{- $ports := list .Values.controller.containerPort.http .Values.controller.containerPort.https -}}
{{- range $port, $_ := .Values.tcp }}{{ $ports = append $ports $port }}{{ end -}}
{{- range $port, $_ := .Values.udp }}{{ $ports = append $ports $port }}{{ end -}}
{{- with .Values.controller.admissionWebhooks }}{{ if .enabled }}{{ $ports = append $ports .port }}{{ end }}{{ end -}}
{{- $low := false -}}
{{- range $ports }}{{ if lt (int .) 1024 }}{{ $low = true }}{{ end }}{{ end -}}
{{- if and $low .Values.controller.hostNetwork (ne (int .Values.controller.image.runAsUser) 0) -}}
{{- fail "a port below 1024 with hostNetwork needs controller.image.runAsUser: 0 (and runAsNonRoot: false): the node does not give the port to another user. Ports above 1024 or controller.hostPort need neither" -}}
{{- end -}}
{{- if $low }}true{{ end -}}
{{- end -}}

{{/* "true" if there can be more than one Pod. */}}
{{- define "holdfast.severalPods" -}}
{{- $c := .Values.controller -}}
{{- if eq $c.kind "DaemonSet" -}}true
{{- else if $c.autoscaling.enabled -}}{{- if gt (int $c.autoscaling.minReplicas) 1 -}}true{{- end -}}
{{- else if gt (int $c.replicaCount) 1 -}}true
{{- end -}}
{{- end -}}

{{/* Flags that values set: extraArgs must not repeat them, because a flag may be given once. */}}
{{- define "holdfast.checkExtraArgs" -}}
{{- $taken := list "controller-class" "ingress-class" "ingress-class-by-name" "watch-ingress-without-class" "gateway-controller-name" "gateway-addresses" "configmap" "tcp-services-configmap" "udp-services-configmap" "default-backend-service" "default-ssl-certificate" "http-port" "https-port" "listen-address" "healthz-port" "watch-namespace" "watch-namespace-selector" "publish-service" "publish-status-address" "update-status" "election-id" "shutdown-grace-period" "worker-shutdown-timeout" "annotations-prefix" "enable-ssl-passthrough" "disable-catch-all" "allow-snippet-annotations" "state-directory" "workers" "acme-directory" "acme-contact" "acme-accept-terms" "acme-trusted-certificate" "acme-secret" "validating-webhook" "validating-webhook-certificate" "validating-webhook-key" -}}
{{- range $key, $_ := .Values.controller.extraArgs -}}
{{- if has $key $taken -}}
{{- fail (printf "controller.extraArgs.%s: the chart has a value of its own for this flag, see README.md" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.args" -}}
{{- include "holdfast.checkExtraArgs" . -}}
{{- $c := .Values.controller -}}
{{- $name := include "holdfast.fullname" . -}}
- ingress
- --controller-class={{ $c.ingressClassResource.controllerValue }}
- --ingress-class={{ $c.ingressClass }}
{{- if $c.ingressClassByName }}
- --ingress-class-by-name
{{- end }}
{{- if $c.watchIngressWithoutClass }}
- --watch-ingress-without-class
{{- end }}
{{- if $c.disableCatchAll }}
- --disable-catch-all
{{- end }}
- --gateway-controller-name={{ $c.gatewayAPI.controllerName }}
{{- with $c.gatewayAPI.addresses }}
- --gateway-addresses={{ join "," . }}
{{- end }}
- --configmap={{ include "holdfast.configNamespace" . }}/{{ $name }}
{{- if .Values.tcp }}
- --tcp-services-configmap={{ include "holdfast.configNamespace" . }}/{{ $name }}-tcp
{{- end }}
{{- if .Values.udp }}
- --udp-services-configmap={{ include "holdfast.configNamespace" . }}/{{ $name }}-udp
{{- end }}
- --http-port={{ $c.containerPort.http }}
- --https-port={{ $c.containerPort.https }}
- --healthz-port={{ $c.healthzPort }}
{{- with $c.listenAddress }}
- --listen-address={{ . }}
{{- end }}
{{- with (int $c.workers) }}
- --workers={{ . }}
{{- end }}
- --annotations-prefix={{ $c.annotationsPrefix }}
{{- if $c.allowSnippetAnnotations }}
- --allow-snippet-annotations
{{- end }}
{{- if $c.enableSSLPassthrough }}
- --enable-ssl-passthrough
{{- end }}
{{- with $c.defaultSSLCertificate }}
- --default-ssl-certificate={{ . }}
{{- end }}
{{- with $c.defaultBackendService }}
- --default-backend-service={{ . }}
{{- end }}
{{- if $c.scope.enabled }}
{{- if $c.scope.namespaceSelector }}
- --watch-namespace-selector={{ $c.scope.namespaceSelector }}
{{- else }}
- --watch-namespace={{ include "holdfast.watchNamespace" . }}
{{- end }}
{{- end }}
- --update-status={{ $c.updateStatus }}
{{- if $c.publishStatusAddress }}
- --publish-status-address={{ $c.publishStatusAddress }}
{{- else if and $c.publishService.enabled (or $c.publishService.pathOverride (and $c.service.enabled (eq (include "holdfast.configNamespace" .) .Release.Namespace))) }}
- --publish-service={{ default (printf "%s/%s" .Release.Namespace $name) $c.publishService.pathOverride }}
{{- end }}
- --election-id={{ include "holdfast.electionID" . }}
- --shutdown-grace-period={{ $c.shutdownGracePeriodSeconds }}s
- --worker-shutdown-timeout={{ $c.workerShutdownTimeoutSeconds }}s
{{- if $c.admissionWebhooks.enabled }}
- --validating-webhook=:{{ $c.admissionWebhooks.port }}
- --validating-webhook-certificate=/etc/holdfast/admission/tls.crt
- --validating-webhook-key=/etc/holdfast/admission/tls.key
{{- end }}
{{- if include "holdfast.acme" . }}
- --acme-directory={{ $c.acme.directory }}
{{- with $c.acme.contacts }}
- --acme-contact={{ join "," . }}
{{- end }}
- --acme-accept-terms={{ $c.acme.acceptTerms }}
{{- if $c.acme.trustedConfigMap }}
- --acme-trusted-certificate=/etc/holdfast/acme/ca.crt
{{- end }}
- --acme-secret={{ include "holdfast.acmeSecret" . }}
{{- end }}
{{- if $c.state.enabled }}
- --state-directory=/var/lib/holdfast/state
{{- end }}
{{- range $key, $value := $c.extraArgs }}
{{- if eq (toString $value) "" }}
- --{{ $key }}
{{- else }}
- {{ printf "--%s=%v" $key $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "holdfast.topologySpread" -}}
{{- if .Values.controller.topologySpreadConstraints -}}
{{- toYaml .Values.controller.topologySpreadConstraints -}}
{{- else -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "holdfast.selectorLabels" $ | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}
