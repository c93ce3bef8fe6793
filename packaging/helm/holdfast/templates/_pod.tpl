{{/* The Pod of the Deployment and of the DaemonSet. */}}
{{- define "holdfast.pod" -}}
{{- $c := .Values.controller -}}
metadata:
  labels:
    {{- include "holdfast.labels" . | nindent 4 }}
    {{- with $c.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $c.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "holdfast.serviceAccountName" . }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automountServiceAccountToken }}
  terminationGracePeriodSeconds: {{ include "holdfast.gracePeriod" . }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $c.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if $c.hostNetwork }}
  hostNetwork: true
  {{- end }}
  dnsPolicy: {{ default (ternary "ClusterFirstWithHostNet" "ClusterFirst" $c.hostNetwork) $c.dnsPolicy }}
  {{- with $c.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $c.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: {{ $c.image.runAsNonRoot }}
    runAsUser: {{ $c.image.runAsUser }}
    runAsGroup: {{ $c.image.runAsGroup }}
    # The volumes below belong to this group.
    fsGroup: {{ $c.image.runAsGroup }}
    seccompProfile:
      {{- toYaml $c.image.seccompProfile | nindent 6 }}
    {{- if and (include "holdfast.lowPort" .) (not $c.hostNetwork) }}
    # For ports below 1024: the network namespace of the Pod gives them to every user. Kubernetes calls this sysctl safe.
    sysctls:
      - name: net.ipv4.ip_unprivileged_port_start
        value: "0"
    {{- end }}
  {{- with $c.extraInitContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: controller
      image: {{ include "holdfast.image" . }}
      imagePullPolicy: {{ $c.image.pullPolicy }}
      args:
        {{- include "holdfast.args" . | nindent 8 }}
      env:
        # The replica's own name and place: for the Lease, and for its own objects.
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        # Its zone is preferred for endpoints.
        - name: NODE_NAME
          valueFrom:
            fieldRef:
              fieldPath: spec.nodeName
        {{- with $c.extraEnvs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: {{ $c.containerPort.http }}
          protocol: TCP
          {{- if $c.hostPort.enabled }}
          hostPort: {{ $c.hostPort.ports.http }}
          {{- end }}
        - name: https
          containerPort: {{ $c.containerPort.https }}
          protocol: TCP
          {{- if $c.hostPort.enabled }}
          hostPort: {{ $c.hostPort.ports.https }}
          {{- end }}
        - name: {{ $c.metrics.portName }}
          containerPort: {{ $c.healthzPort }}
          protocol: TCP
        {{- if $c.admissionWebhooks.enabled }}
        - name: webhook
          containerPort: {{ $c.admissionWebhooks.port }}
          protocol: TCP
        {{- end }}
        {{- range $port, $_ := .Values.tcp }}
        - name: {{ $port }}-tcp
          containerPort: {{ $port }}
          protocol: TCP
          {{- if $c.hostPort.enabled }}
          hostPort: {{ $port }}
          {{- end }}
        {{- end }}
        {{- range $port, $_ := .Values.udp }}
        - name: {{ $port }}-udp
          containerPort: {{ $port }}
          protocol: UDP
          {{- if $c.hostPort.enabled }}
          hostPort: {{ $port }}
          {{- end }}
        {{- end }}
      # The process answers: it is not restarted while the API server is away.
      livenessProbe:
        httpGet:
          path: /healthz
          port: {{ $c.metrics.portName }}
        {{- toYaml $c.livenessProbe | nindent 8 }}
      # It has a configuration and is not about to end.
      readinessProbe:
        httpGet:
          path: /readyz
          port: {{ $c.metrics.portName }}
        {{- toYaml $c.readinessProbe | nindent 8 }}
      resources:
        {{- toYaml $c.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: {{ $c.image.allowPrivilegeEscalation }}
        readOnlyRootFilesystem: {{ $c.image.readOnlyRootFilesystem }}
        capabilities:
          drop: [ALL]
          {{- if include "holdfast.lowPort" . }}
          # A port of the container is below 1024.
          add: [NET_BIND_SERVICE]
          {{- end }}
      volumeMounts:
        {{- if $c.state.enabled }}
        - name: state
          mountPath: /var/lib/holdfast
        {{- end }}
        - name: temporary
          mountPath: /tmp
        {{- if $c.admissionWebhooks.enabled }}
        - name: admission
          mountPath: /etc/holdfast/admission
          readOnly: true
        {{- end }}
        {{- if and (include "holdfast.acme" .) $c.acme.trustedConfigMap }}
        - name: acme
          mountPath: /etc/holdfast/acme
          readOnly: true
        {{- end }}
        {{- with $c.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $c.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- if $c.state.enabled }}
    # In memory, because the state has keys of certificates. It ends with the Pod, and survives the container.
    - name: state
      emptyDir:
        medium: Memory
        sizeLimit: {{ $c.state.sizeLimit }}
    {{- end }}
    - name: temporary
      emptyDir:
        sizeLimit: {{ $c.temporary.sizeLimit }}
    {{- if $c.admissionWebhooks.enabled }}
    # Optional: without it the webhook does not answer, and traffic is served.
    - name: admission
      secret:
        secretName: {{ include "holdfast.webhookName" . }}
        defaultMode: 0440
        optional: true
    {{- end }}
    {{- if and (include "holdfast.acme" .) $c.acme.trustedConfigMap }}
    # The authority's own certificate must come from one of these.
    - name: acme
      configMap:
        name: {{ $c.acme.trustedConfigMap }}
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
    {{- with $c.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  topologySpreadConstraints:
    {{- include "holdfast.topologySpread" . | trim | nindent 4 }}
  {{- with $c.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $c.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $c.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
