// Package volumes makes a folder of this computer for each PersistentVolumeClaim of the class it serves.
//
// A claim gets a PersistentVolume of type hostPath, named pvc-<uid>, which the volume binder of the controller manager
// then binds; when a claim is gone and its volume says Delete, the volume and its folder go, with Retain both stay. It
// may import the Kubernetes client libraries only.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// Class is the name of the storage class, the default one of the cluster.
	Class  = "standard"
	owner  = "spatialcells.io/local-folder"
	prefix = "pvc-"
)

// StorageClass is what a cluster with this provisioner needs.
func StorageClass() *storagev1.StorageClass {
	reclaim, binding := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: Class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: owner, ReclaimPolicy: &reclaim, VolumeBindingMode: &binding,
	}
}

// Provisioner serves the claims of one cluster.
type Provisioner struct {
	dir     string
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	log     *slog.Logger
	changed chan struct{}
}

// New registers a Provisioner whose folders are below dir; Run serves.
func New(dir string, client kubernetes.Interface, inf informers.SharedInformerFactory, log *slog.Logger) (*Provisioner, error) {
	core := inf.Core().V1()
	p := &Provisioner{
		dir: dir, client: client, log: log, changed: make(chan struct{}, 1),
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
	}
	touch := func(any) {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	h := cache.ResourceEventHandlerFuncs{AddFunc: touch, UpdateFunc: func(_, o any) { touch(o) }, DeleteFunc: touch}
	_, err1 := core.PersistentVolumeClaims().Informer().AddEventHandler(h)
	_, err2 := core.PersistentVolumes().Informer().AddEventHandler(h)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("watching volumes: %w", err)
	}
	return p, nil
}

// Run serves until ctx ends.
func (p *Provisioner) Run(ctx context.Context) {
	for {
		var retry <-chan time.Time
		if err := p.sync(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("volumes", "error", err.Error())
			retry = time.After(2 * time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-retry:
		}
	}
}

func (p *Provisioner) sync(ctx context.Context) error {
	claims, err := p.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.DeletionTimestamp == nil && c.Spec.VolumeName == "" && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == Class {
			if err := p.provide(ctx, c); err != nil {
				return fmt.Errorf("volume for claim %s/%s: %w", c.Namespace, c.Name, err)
			}
		}
	}
	volumes, err := p.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if v.Annotations["pv.kubernetes.io/provisioned-by"] == owner && v.Status.Phase == corev1.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && v.DeletionTimestamp == nil {
			if err := p.discard(ctx, v); err != nil {
				return fmt.Errorf("discarding volume %s: %w", v.Name, err)
			}
		}
	}
	return nil
}

func (p *Provisioner) provide(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	name := prefix + string(c.UID)
	if _, err := p.volumes.Get(name); err == nil {
		return nil // the binder has not seen it yet
	}
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	mode := corev1.PersistentVolumeFilesystem
	_, err := p.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": owner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   c.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              Class,
			VolumeMode:                    &mode,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
			},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *Provisioner) discard(ctx context.Context, v *corev1.PersistentVolume) error {
	if hp := v.Spec.HostPath; hp != nil && filepath.Dir(hp.Path) == p.dir && strings.HasPrefix(filepath.Base(hp.Path), prefix) {
		if err := os.RemoveAll(hp.Path); err != nil {
			return err
		}
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
