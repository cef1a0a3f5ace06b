package controllers

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOnlySoManyDeletedPodsAreRemembered(t *testing.T) {
	e, name := &endings{}, func(i int) string { return fmt.Sprintf("uid-%d", i) }
	for i := range maxEndings + 10 {
		e.note(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "genesis-zone-0", UID: types.UID(name(i))}})
	}
	if len(e.pods) != maxEndings || len(e.order) != maxEndings || e.of("genesis-zone-0_"+name(0)) != nil || e.of("genesis-zone-0_"+name(maxEndings+9)) == nil {
		t.Errorf("%d pods are remembered, want the newest %d", len(e.pods), maxEndings)
	}
}
