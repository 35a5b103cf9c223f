{{- /*
What the templates are made of. The objects are those of deploy/plugins, multus and
whereabouts, which the directory manifests/ has by links: kustomize and this chart
read the same files. A template changes only what values name.
*/ -}}

{{- /*
The objects of a file, {objects: [...]}, in the release's namespace. The roles of
whereabouts stay in the namespace of the pools, in which nodes and clean-up look for
the pools.
*/ -}}
{{- define "cni.objects" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $isWhereabouts := hasPrefix "whereabouts/" .file -}}
{{- $objects := list -}}
{{- range $text := splitList "\n---\n" (.root.Files.Get (printf "manifests/%s" .file)) -}}
  {{- $object := fromYaml $text -}}
  {{- $isOfPools := and $isWhereabouts (has $object.kind (list "Role" "RoleBinding")) -}}
  {{- if and $object.metadata.namespace (not $isOfPools) -}}
    {{- $_ := set $object.metadata "namespace" $namespace -}}
  {{- end -}}
  {{- range $subject := $object.subjects -}}
    {{- $_ := set $subject "namespace" $namespace -}}
  {{- end -}}
  {{- $objects = append $objects $object -}}
{{- end -}}
{{- toYaml (dict "objects" $objects) -}}
{{- end -}}

{{- /* The only object of a file. */ -}}
{{- define "cni.object" -}}
{{- toYaml (first (fromYaml (include "cni.objects" .)).objects) -}}
{{- end -}}

{{- /* The argument that a JSON patch adds. */ -}}
{{- define "cni.addedArgument" -}}
{{- (last (fromYamlArray (.root.Files.Get (printf "manifests/%s" .file)))).value -}}
{{- end -}}

{{- /*
The patch of a daemon's component, with the port and the flags of its values, and the
directories in which it searches by itself.
*/ -}}
{{- define "cni.daemon" -}}
{{- $patch := fromYaml (include "cni.object" .) -}}
{{- $container := first $patch.spec.template.spec.containers -}}
{{- $args := list -}}
{{- range $arg := $container.args -}}
  {{- $args = append $args (regexReplaceAll "^(--metrics-address=.*:)[0-9]+$" $arg (printf "${1}%d" (int $.daemon.port))) -}}
{{- end -}}
{{- if eq (toString .daemon.heal) "false" -}}
  {{- $args = append $args "--no-heal" -}}
{{- end -}}
{{- if .daemon.repair -}}
  {{- $args = append $args "--repair" -}}
{{- end -}}
{{- if .daemon.podMetrics -}}
  {{- $args = append $args "--pod-metrics" -}}
{{- end -}}
{{- $_ := set $container "args" $args -}}
{{- $env := default list $container.env -}}
{{- if ne .directory "/opt/cni/bin" -}}
  {{- $env = append $env (dict "name" "CNI_PATH" "value" .directory) -}}
{{- end -}}
{{- if ne .configDirectory "/etc/cni/net.d" -}}
  {{- $env = append $env (dict "name" "NETCONFPATH" "value" .configDirectory) -}}
{{- end -}}
{{- with $env -}}
  {{- $_ := set $container "env" . -}}
{{- end -}}
{{- range $probe := list $container.readinessProbe $container.livenessProbe -}}
  {{- $_ := set $probe.httpGet "port" $.daemon.port -}}
{{- end -}}
{{- toYaml $patch.spec.template.spec -}}
{{- end -}}

{{- /* Prints a DaemonSet or a CronJob with the images, paths and podSpec of the values. */ -}}
{{- define "cni.printPods" -}}
{{- $template := .object.spec.template -}}
{{- if eq .object.kind "CronJob" -}}
  {{- $template = .object.spec.jobTemplate.spec.template -}}
{{- end -}}
{{- $pod := $template.spec -}}
{{- $image := .root.Values.image -}}
{{- range $container := concat (default list $pod.initContainers) $pod.containers -}}
  {{- $name := first (splitList ":" $container.image) -}}
  {{- if has $name (list "cni-plugins" "multus") -}}
    {{- $end := printf ":%s" (default $.root.Chart.AppVersion $image.tag) -}}
    {{- with get $image.digests $name -}}
      {{- $end = printf "@%s" . -}}
    {{- end -}}
    {{- $path := list $image.registry $name | compact | join "/" -}}
    {{- $_ := set $container "image" (print $path $end) -}}
    {{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}
  {{- else if eq $container.name "pause" -}}
    {{- $_ := set $container "image" $.root.Values.pause -}}
  {{- end -}}
{{- end -}}
{{- range $volume := $pod.volumes -}}
  {{- with get (default dict $.paths) $volume.name -}}
    {{- $_ := set $volume.hostPath "path" . -}}
  {{- end -}}
{{- end -}}
{{- $_ := set $template "spec" (mergeOverwrite $pod (deepCopy .podSpec)) -}}
---
{{ toYaml .object }}
{{ end -}}

{{- /* Prints other objects. CRDs stay: their objects would go with them. */ -}}
{{- define "cni.print" -}}
{{- range $object := (fromYaml (include "cni.objects" .)).objects }}
{{- if eq $object.kind "CustomResourceDefinition" -}}
  {{- $_ := set $object.metadata "annotations" (dict "helm.sh/resource-policy" "keep") -}}
{{- end }}
---
{{ toYaml $object }}
{{ end -}}
{{- end -}}

{{- /*
The annotations of a hook. Helm takes every object but a Job for succeeded, and
deletes it even if a later Job fails, unless "policy" says otherwise.
*/ -}}
{{- define "cni.hook" -}}
helm.sh/hook: {{ .part.events }}
helm.sh/hook-weight: {{ .weight | quote }}
helm.sh/hook-delete-policy: {{ default "before-hook-creation,hook-succeeded" .policy }}
{{- end -}}

{{- /* The spec of a job's pod, which runs kubectl. */ -}}
{{- define "cni.kubectl" -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: true
restartPolicy: Never
# It must run where pods have no network.
hostNetwork: true
tolerations:
  - operator: Exists
nodeSelector:
  kubernetes.io/os: linux
containers:
  - name: kubectl
    image: {{ .root.Values.cleanup.kubectl }}
    args: {{ concat .args (list (printf "--namespace=%s" .root.Release.Namespace) (printf "--timeout=%s" .root.Values.cleanup.timeout)) | toJson }}
    resources:
      requests:
        cpu: 10m
        memory: 32Mi
      limits:
        memory: 128Mi
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      runAsNonRoot: true
      runAsUser: 65534
      capabilities:
        drop: [ALL]
      seccompProfile:
        type: RuntimeDefault
    terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}
