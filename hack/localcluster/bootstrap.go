package localcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spatialcells/spatialcells/hack/localcluster/volumes"
)

// runtimeRole is what the process runtime, the proxy and the provisioner may do. It is a user of its own because
// system:node may not list secrets and configMaps.
func runtimeRole() *rbacv1.ClusterRole {
	rule := func(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	read := []string{"get", "list", "watch"}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: runtimeUser},
		Rules: []rbacv1.PolicyRule{
			rule("", append([]string{"create", "update", "patch"}, read...), "nodes"),
			rule("", []string{"patch", "update"}, "nodes/status", "pods/status", "services/status"),
			rule("", append([]string{"delete"}, read...), "pods"),
			rule("", read, "secrets", "configmaps", "services", "persistentvolumeclaims"),
			rule("", append([]string{"create", "delete"}, read...), "persistentvolumes"),
			rule("", []string{"create"}, "serviceaccounts/token"),
			rule("", []string{"create", "patch", "update"}, "events"),
			rule("coordination.k8s.io", []string{"get", "create", "update", "patch"}, "leases"),
		},
	}
}

// bootstrap makes what a cluster of this kind has from the start. Objects that are there stay as they are.
func bootstrap(ctx context.Context, admin kubernetes.Interface) error {
	opts := metav1.CreateOptions{}
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, runtimeRole(), opts)
	if err := ignoreExisting("role of the runtime", err); err != nil {
		return err
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: runtimeUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: runtimeUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: runtimeUser}},
	}, opts)
	if err := ignoreExisting("binding of the runtime", err); err != nil {
		return err
	}
	_, err = admin.StorageV1().StorageClasses().Create(ctx, volumes.StorageClass(), opts)
	return ignoreExisting("storage class", err)
}

func ignoreExisting(what string, err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("creating the %s: %w", what, err)
}

// takesPods tells whether a pod created now in the default namespace would be admitted and scheduled.
func takesPods(ctx context.Context, admin kubernetes.Interface, machines int) error {
	if _, err := admin.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for i := range nodes.Items {
		if schedulable(&nodes.Items[i]) {
			ready++
		}
	}
	if ready < machines {
		return fmt.Errorf("%d of %d machines are ready", ready, machines)
	}
	return nil
}

func schedulable(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
