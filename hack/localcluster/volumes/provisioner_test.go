package volumes

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func claim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", UID: "uid-" + "1"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
	}
}

func TestAClaimGetsAFolderAndLosesItWithItsVolume(t *testing.T) {
	dir := t.TempDir()
	cs := fake.NewClientset(claim("c", Class), claim("foreign", "fast"))
	inf := informers.NewSharedInformerFactory(cs, 0)
	p, err := New(dir, cs, inf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	inf.Start(ctx.Done())
	inf.WaitForCacheSync(ctx.Done())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done; inf.Shutdown() }()

	get := func() (*corev1.PersistentVolume, error) {
		return cs.CoreV1().PersistentVolumes().Get(ctx, "pvc-uid-1", metav1.GetOptions{})
	}
	eventually(t, func() bool { _, err := get(); return err == nil })
	pv, _ := get()
	folder := filepath.Join(dir, "pvc-uid-1")
	if pv.Spec.HostPath.Path != folder || pv.Spec.ClaimRef.Name != "c" || pv.Spec.ClaimRef.UID != "uid-1" {
		t.Errorf("%+v", pv.Spec)
	}
	if err := os.WriteFile(filepath.Join(folder, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pv.Status.Phase = corev1.VolumeReleased
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if _, err := cs.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.sync(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("a retained folder is gone: %v", err)
	}
	if err := cs.CoreV1().PersistentVolumeClaims("n").Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if _, err := cs.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { _, err := get(); return apierrors.IsNotFound(err) })
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder is still there")
	}
}

func eventually(t *testing.T, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatal("not in time")
		}
		<-tick.C
	}
}
