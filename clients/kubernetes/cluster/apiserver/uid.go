package apiserver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// uidTimeout bounds the request for a cluster's UID.
const uidTimeout = 10 * time.Second

// UID returns a unique id of the cluster, independent of its name: the UID of the namespace
// kube-system, which every cluster has and nobody can delete.
func (c *Client) UID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uidTimeout)
	defer cancel()
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	namespace, err := c.metadata.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(namespace.UID), nil
}
