//go:build linux

package kubetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Account is a service account with a token.
type Account struct {
	Namespace, Name string
	// User is its name at the API server.
	User string
	// Kubeconfig names a kubeconfig with its token.
	Kubeconfig string
	// Config is a client configuration with its token.
	Config *rest.Config
}

// Account creates a service account without permissions, or uses an existing one, and requests
// a token for an hour.
func (c *Cluster) Account(t testing.TB, namespace, name string) *Account {
	t.Helper()
	ctx := context.Background()
	accounts := c.client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	seconds := int64(time.Hour / time.Second)
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	fatal.If(t, err)
	a := &Account{Namespace: namespace, Name: name, User: fmt.Sprintf("system:serviceaccount:%s:%s", namespace, name)}
	a.Kubeconfig, err = c.files.kubeconfig(namespace+"-"+name, c.URL(), token.Status.Token)
	fatal.If(t, err)
	a.Config, err = clientConfig(a.Kubeconfig)
	fatal.If(t, err)
	return a
}

// Grant gives the account the rules' permissions in all namespaces, replacing those of an
// earlier Grant.
func (c *Cluster) Grant(t testing.TB, a *Account, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx := context.Background()
	name := "kubetest:" + a.Namespace + ":" + a.Name
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	_, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = c.client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	fatal.If(t, err)
	_, err = c.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
