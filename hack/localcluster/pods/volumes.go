package pods

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// token is a service account token in a volume.
type token struct {
	text    string
	expires time.Time
	renew   time.Time
}

// prepareVolumes makes all volumes and returns where the container's mount paths are. It may be repeated.
func (p *pod) prepareVolumes(ctx context.Context) (mounts, error) {
	where := map[string]string{}
	for i := range p.obj.Spec.Volumes {
		v := &p.obj.Spec.Volumes[i]
		dir, err := p.prepareVolume(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		where[v.Name] = dir
	}
	var m mounts
	for _, vm := range p.obj.Spec.Containers[0].VolumeMounts {
		sub := vm.SubPath
		if vm.SubPathExpr != "" {
			return nil, fmt.Errorf("volume %s: the process runtime does not expand subPathExpr", vm.Name)
		}
		if sub != "" && !filepath.IsLocal(sub) {
			return nil, fmt.Errorf("volume %s: subPath %q leaves the volume", vm.Name, sub)
		}
		m = append(m, mount{from: vm.MountPath, to: filepath.Join(where[vm.Name], sub)})
	}
	return m.sorted(), nil
}

func (p *pod) prepareVolume(ctx context.Context, v *corev1.Volume) (string, error) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return p.claimDir(ctx, v.PersistentVolumeClaim.ClaimName)
	case v.HostPath != nil:
		return v.HostPath.Path, nil
	}
	dir := filepath.Join(p.dir, "volumes", v.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if v.EmptyDir != nil {
		return dir, nil
	}
	_, err := p.refreshVolume(ctx, v)
	return dir, err
}

// claimDir finds the folder behind a bound claim.
func (p *pod) claimDir(ctx context.Context, claim string) (string, error) {
	core := p.rt.cfg.Client.CoreV1()
	pvc, err := core.PersistentVolumeClaims(p.obj.Namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if pvc.Spec.VolumeName == "" {
		return "", fmt.Errorf("claim %s is not bound yet", claim)
	}
	pv, err := core.PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if pv.Spec.HostPath == nil {
		return "", fmt.Errorf("claim %s is bound to a volume that is no folder of this machine", claim)
	}
	return pv.Spec.HostPath.Path, os.MkdirAll(pv.Spec.HostPath.Path, 0o755)
}

// refreshVolumes brings every volume that comes from the API up to date; an unreachable API leaves it as it was.
func (p *pod) refreshVolumes(ctx context.Context) error {
	for i := range p.obj.Spec.Volumes {
		v := &p.obj.Spec.Volumes[i]
		if v.Secret == nil && v.ConfigMap == nil && v.Projected == nil && v.DownwardAPI == nil {
			continue
		}
		if _, err := p.refreshVolume(ctx, v); err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

func (p *pod) refreshVolume(ctx context.Context, v *corev1.Volume) (bool, error) {
	files := map[string]file{}
	var err error
	switch {
	case v.Secret != nil:
		s := v.Secret
		err = p.keyed(ctx, files, "secret", s.SecretName, s.Optional, s.Items, modeOf(s.DefaultMode))
	case v.ConfigMap != nil:
		s := v.ConfigMap
		err = p.keyed(ctx, files, "configmap", s.Name, s.Optional, s.Items, modeOf(s.DefaultMode))
	case v.DownwardAPI != nil:
		err = p.downward(files, v.DownwardAPI.Items, modeOf(v.DownwardAPI.DefaultMode))
	case v.Projected != nil:
		err = p.projected(ctx, files, v)
	default:
		err = fmt.Errorf("the process runtime knows emptyDir, hostPath, secret, configMap, projected, downwardAPI and persistentVolumeClaim only")
	}
	if err != nil {
		return false, err
	}
	return swapDir(filepath.Join(p.dir, "volumes", v.Name), files)
}

func modeOf(m *int32) fs.FileMode {
	if m == nil {
		return 0o644
	}
	// The owner must be able to read and replace the file, whatever user the image expected.
	return fs.FileMode(*m)&0o777 | 0o600
}

func (p *pod) keyed(ctx context.Context, files map[string]file, kind, name string, optional *bool, items []corev1.KeyToPath, mode fs.FileMode) error {
	data, err := p.data(ctx, kind, name, optional)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		for k, v := range data {
			files[k] = file{v, mode}
		}
		return nil
	}
	for _, it := range items {
		v, ok := data[it.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("%s %s has no key %q", kind, name, it.Key)
		}
		m := mode
		if it.Mode != nil {
			m = modeOf(it.Mode)
		}
		files[it.Path] = file{v, m}
	}
	return nil
}

func (p *pod) downward(files map[string]file, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode) error {
	for _, it := range items {
		var val string
		var err error
		switch {
		case it.FieldRef != nil:
			val, err = p.field(it.FieldRef.FieldPath)
		case it.ResourceFieldRef != nil:
			val, err = p.resource(it.ResourceFieldRef)
		}
		if err != nil {
			return err
		}
		files[it.Path] = file{[]byte(val), mode}
	}
	return nil
}

func (p *pod) projected(ctx context.Context, files map[string]file, v *corev1.Volume) error {
	mode := modeOf(v.Projected.DefaultMode)
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		var err error
		switch {
		case s.ServiceAccountToken != nil:
			var text string
			if text, err = p.token(ctx, v.Name, s.ServiceAccountToken); err == nil {
				files[s.ServiceAccountToken.Path] = file{[]byte(text), 0o600}
			}
		case s.ConfigMap != nil:
			err = p.keyed(ctx, files, "configmap", s.ConfigMap.Name, s.ConfigMap.Optional, s.ConfigMap.Items, mode)
		case s.Secret != nil:
			err = p.keyed(ctx, files, "secret", s.Secret.Name, s.Secret.Optional, s.Secret.Items, mode)
		case s.DownwardAPI != nil:
			err = p.downward(files, s.DownwardAPI.Items, mode)
		default:
			err = fmt.Errorf("the process runtime knows no such projected source")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// token returns the pod's token for one projection, bound to the pod; it asks for a new one at four fifths of its life.
func (p *pod) token(ctx context.Context, volume string, s *corev1.ServiceAccountTokenProjection) (string, error) {
	key := volume + "/" + s.Path
	now := time.Now()
	if t, ok := p.tokens[key]; ok && now.Before(t.renew) {
		return t.text, nil
	}
	req := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.obj.Name, UID: p.obj.UID},
	}}
	if s.Audience != "" {
		req.Spec.Audiences = []string{s.Audience}
	}
	account := p.obj.Spec.ServiceAccountName
	out, err := p.rt.cfg.Client.CoreV1().ServiceAccounts(p.obj.Namespace).CreateToken(ctx, account, req, metav1.CreateOptions{})
	if err != nil {
		if t, ok := p.tokens[key]; ok && now.Before(t.expires) { // better the old one than none
			return t.text, nil
		}
		return "", fmt.Errorf("asking for a token of service account %s: %w", account, err)
	}
	t := token{text: out.Status.Token, expires: out.Status.ExpirationTimestamp.Time}
	t.renew = now.Add(t.expires.Sub(now) * 4 / 5)
	p.tokens[key] = t
	return t.text, nil
}

// uses tells whether a volume of the pod comes from this secret or configMap.
func (p *pod) uses(kind, name string) bool {
	for i := range p.obj.Spec.Volumes {
		v := &p.obj.Spec.Volumes[i]
		if kind == "secret" && v.Secret != nil && v.Secret.SecretName == name {
			return true
		}
		if kind == "configmap" && v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
		if v.Projected != nil && projects(v.Projected.Sources, kind, name) {
			return true
		}
	}
	return false
}

func projects(sources []corev1.VolumeProjection, kind, name string) bool {
	for _, s := range sources {
		if kind == "secret" && s.Secret != nil && s.Secret.Name == name {
			return true
		}
		if kind == "configmap" && s.ConfigMap != nil && s.ConfigMap.Name == name {
			return true
		}
	}
	return false
}
