package controllers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/spatialcells/spatialcells/api/v1alpha1"
)

// Ports of a zone node.
const (
	portGateway = 8080
	portHTTP    = 8081
	portLink    = 7777
	portStore   = 6379
)

const (
	labelComponent    = "app.kubernetes.io/component"
	labelName         = "app.kubernetes.io/name"
	labelInstance     = "app.kubernetes.io/instance"
	labelManagedBy    = "app.kubernetes.io/managed-by"
	componentZoneNode = "zone-node"
	componentStore    = "store"
	containerZoneNode = "zone-node"

	// nonroot is the user and group of the image.
	nonroot = 65532
	// stopGraceSeconds is what a zone node is given beyond a drain to save and release.
	stopGraceSeconds = 30
)

// selector are the labels of the pods of one component, never changed after the first version: they are immutable.
func selector(world, component string) map[string]string {
	return map[string]string{labelName: "spatialcells", labelInstance: world, labelComponent: component}
}

func podLabels(world, component string) map[string]string {
	l := selector(world, component)
	l[v1alpha1.LabelWorld] = world
	return l
}

// zoneNodeTemplate renders the pod of a zone node, with the user's template laid over it. The result is untyped, so that a
// field that Kubernetes does not know reaches the API server and is refused there by name.
func (s *scene) zoneNodeTemplate() (map[string]any, error) {
	base, err := json.Marshal(s.baseTemplate())
	if err != nil {
		return nil, fmt.Errorf("rendering the pod template: %w", err)
	}
	if overlay := s.world.Spec.Nodes.Template; overlay != nil && len(overlay.Raw) > 0 {
		if base, err = strategicpatch.StrategicMergePatch(base, overlay.Raw, corev1.PodTemplateSpec{}); err != nil {
			return nil, &blocked{v1alpha1.ReasonInvalidTemplate, fmt.Sprintf(
				"nodes.template cannot be laid over the pod of a zone node: %s. Correct it; the running pods stay as they are.", err)}
		}
		if field := s.overruled(base); field != "" {
			return nil, &blocked{v1alpha1.ReasonInvalidTemplate, fmt.Sprintf(
				"nodes.template changes %s, which the operator needs as it is: remove that; the running pods stay as they are.", field)}
		}
	}
	template := map[string]any{}
	if err := json.Unmarshal(base, &template); err != nil {
		return nil, fmt.Errorf("reading the pod template: %w", err)
	}
	return prune(template), nil
}

// overruled names a field of the merged template without which a pod would be no zone node of this World, "" if all are
// as the operator rendered them. What a user may add or change is everything else: resources, environment, sidecars,
// placement, security. Fields of the wrong type are left to the API server, which names them.
func (s *scene) overruled(merged []byte) string {
	var have corev1.PodTemplateSpec
	if json.Unmarshal(merged, &have) != nil {
		return ""
	}
	want := s.baseTemplate()
	for label, value := range want.Labels {
		if have.Labels[label] != value {
			return "the label " + label
		}
	}
	if have.Spec.ServiceAccountName != want.Spec.ServiceAccountName {
		return "serviceAccountName"
	}
	i := slices.IndexFunc(have.Spec.Containers, func(c corev1.Container) bool { return c.Name == containerZoneNode })
	switch {
	case i < 0:
		return "the container " + containerZoneNode
	case len(have.Spec.Containers[i].Command) > 0:
		return "the command of container " + containerZoneNode
	case !slices.Equal(have.Spec.Containers[i].Args, want.Spec.Containers[0].Args):
		return "the args of container " + containerZoneNode
	}
	return ""
}

func (s *scene) baseTemplate() corev1.PodTemplateSpec {
	world := s.world
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      podLabels(world.Name, componentZoneNode),
			Annotations: map[string]string{"kubectl.kubernetes.io/default-container": containerZoneNode},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            v1alpha1.ServiceAccountName(world.Name),
			SecurityContext:               restrictedPod(),
			TerminationGracePeriodSeconds: new(int64(world.Spec.Nodes.DrainTimeoutSeconds) + stopGraceSeconds),
			TopologySpreadConstraints:     spread(world.Name),
			Containers:                    []corev1.Container{s.zoneNodeContainer()},
			Volumes: append([]corev1.Volume{
				secretVolume("seed", s.seedSecretName(), v1alpha1.SeedKey),
				secretVolume("token-keys", s.tokenKeysSecretName(), ""),
			}, s.store.volumes()...),
		},
	}
}

func (s *scene) zoneNodeContainer() corev1.Container {
	return corev1.Container{
		Name:            containerZoneNode,
		Image:           s.image,
		Args:            s.zoneNodeArgs(),
		Env:             zoneNodeEnv(),
		SecurityContext: restrictedContainer(),
		Resources:       corev1.ResourceRequirements{Requests: resourceList(s.world.Spec.Nodes.Resources.Requests), Limits: resourceList(s.world.Spec.Nodes.Resources.Limits)},
		Ports: []corev1.ContainerPort{
			{Name: "gateway", ContainerPort: portGateway, Protocol: corev1.ProtocolTCP},
			{Name: "http", ContainerPort: portHTTP, Protocol: corev1.ProtocolTCP},
			{Name: "link", ContainerPort: portLink, Protocol: corev1.ProtocolTCP},
		},
		// Readiness does not depend on owning regions: a fresh node owns none. Liveness is local: a slow API server must
		// not restart healthy nodes.
		ReadinessProbe: httpProbe("/readyz", 2, 2),
		LivenessProbe:  httpProbe("/healthz", 5, 6),
		VolumeMounts: append([]corev1.VolumeMount{
			{Name: "seed", MountPath: "/etc/spatialcells/seed", ReadOnly: true},
			{Name: "token-keys", MountPath: "/etc/spatialcells/token-keys", ReadOnly: true},
		}, s.store.mounts()...),
	}
}

func (s *scene) zoneNodeArgs() []string {
	spec := &s.world.Spec
	seconds := func(n int32) string { return strconv.Itoa(int(n)) + "s" }
	args := []string{
		"--world=" + s.world.Name,
		"--world-uid=" + string(s.world.UID),
		"--namespace=$(POD_NAMESPACE)",
		"--pod-name=$(POD_NAME)",
		"--pod-uid=$(POD_UID)",
		"--ordinal=$(NODE_ORDINAL)",
		"--columns=" + strconv.Itoa(int(spec.Grid.Columns)),
		"--rows=" + strconv.Itoa(int(spec.Grid.Rows)),
		"--region-edge-chunks=" + strconv.Itoa(int(spec.Grid.RegionEdgeChunks)),
		"--lease-duration=" + seconds(spec.Fencing.LeaseDurationSeconds),
		"--renew-deadline=" + seconds(spec.Fencing.RenewDeadlineSeconds),
		"--renew-period=" + seconds(spec.Fencing.RenewPeriodSeconds),
		"--seed-file=/etc/spatialcells/seed/" + v1alpha1.SeedKey,
		"--token-keys-dir=/etc/spatialcells/token-keys",
		"--gateway-port=" + strconv.Itoa(portGateway),
		"--http-port=" + strconv.Itoa(portHTTP),
		"--link-port=" + strconv.Itoa(portLink),
		"--advertise-host=$(POD_IP)",
	}
	args = append(args, s.store.storeFlags(s.storeID)...)
	if origins := spec.Gateway.AllowedOrigins; len(origins) > 0 {
		args = append(args, "--allowed-origins="+strings.Join(origins, ","))
	}
	return args
}

func zoneNodeEnv() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	return []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_UID", "metadata.uid"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("POD_IP", "status.podIP"),
		field("NODE_ORDINAL", "metadata.labels['apps.kubernetes.io/pod-index']"),
	}
}

// httpProbe asks every period seconds and gives up after failures in a row.
func httpProbe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(portHTTP), Scheme: corev1.URISchemeHTTP}},
		PeriodSeconds:    period,
		TimeoutSeconds:   2,
		FailureThreshold: failures,
		SuccessThreshold: 1,
	}
}

// spread puts the nodes of a World on different machines and zones where it can.
func spread(world string) []corev1.TopologySpreadConstraint {
	over := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector(world, componentZoneNode)},
		}
	}
	return []corev1.TopologySpreadConstraint{over(corev1.LabelHostname), over(corev1.LabelTopologyZone)}
}

func restrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(nonroot)), RunAsGroup: new(int64(nonroot)), FSGroup: new(int64(nonroot)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// secretVolume mounts one key of a Secret, or all if key is empty, readable by the pod's group.
func secretVolume(name, secret, key string) corev1.Volume {
	source := &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o440))}
	if key != "" {
		source.Items = []corev1.KeyToPath{{Key: key, Path: key}}
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}}
}

func resourceList(quantities map[string]resource.Quantity) corev1.ResourceList {
	if len(quantities) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for name, quantity := range quantities {
		list[corev1.ResourceName(name)] = quantity
	}
	return list
}

// chooseImage is what the spec says, else what was chosen before: an operator upgrade never restarts a zone node.
func (s *scene) chooseImage(byDefault string) string {
	if s.world.Spec.Nodes.Image != "" {
		return s.world.Spec.Nodes.Image
	}
	if s.world.Status.Image != "" {
		return s.world.Status.Image
	}
	if s.statefulSet != nil { // chosen, and lost before it was reported
		for _, c := range s.statefulSet.Spec.Template.Spec.Containers {
			if c.Name == containerZoneNode && c.Image != "" {
				return c.Image
			}
		}
	}
	return byDefault
}
