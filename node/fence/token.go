package fence

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// Keys of the claims that the API server makes of a token bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// ErrUnboundToken: the token of this process does not name its pod, so the API server could not tell it from its
// neighbours and the lease policies could not protect it. Waiting does not help.
var ErrUnboundToken = errors.New("service account token is not bound to this pod")

// CheckToken asks the API server who it takes this process for and compares that with the pod it should be. It returns
// ErrUnboundToken, wrapped with what to do, or the error of the request.
func CheckToken(ctx context.Context, reviews authenticationclient.SelfSubjectReviewInterface, pod, uid string) error {
	review, err := reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("reviewing the token of this process: %w", err)
	}
	return boundTo(review.Status.UserInfo, pod, uid)
}

// boundTo reports whether user is the service account of exactly that pod.
func boundTo(user authenticationv1.UserInfo, pod, uid string) error {
	name, id := user.Extra[extraPodName], user.Extra[extraPodUID]
	switch {
	case len(name) != 1 || len(id) != 1:
		return fmt.Errorf("%w: %q has no pod-name and pod-uid claims; use the token that the kubelet projects into the pod, not a static one",
			ErrUnboundToken, user.Username)
	case name[0] != pod || id[0] != uid:
		return fmt.Errorf("%w: it names pod %s (uid %s), this is %s (uid %s); check --pod-name and --pod-uid",
			ErrUnboundToken, name[0], id[0], pod, uid)
	}
	return nil
}
