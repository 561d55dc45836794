package apiserver

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/scalecache"
)

// reviewTimeout bounds a check of permissions.
const reviewTimeout = 15 * time.Second

var _ scalecache.Access = (*Client)(nil)

// MayWatch implements scalecache.Access: it sends SelfSubjectAccessReviews, which every account
// may.
func (c *Client) MayWatch(ctx context.Context, resource schema.GroupVersionResource, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			},
		}}
		answer, err := c.reviews.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		if !answer.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}
