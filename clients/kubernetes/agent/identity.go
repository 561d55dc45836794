package agent

import (
	"context"
	"fmt"
	"regexp"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/clients/agent/status"
)

// identityTries bounds the attempts to read the cluster's UID at the start.
const identityTries = 3

// isClusterUID matches the UIDs that the service accepts.
var isClusterUID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// identify reads the cluster's UID, with which the service detects another cluster of the same
// name. It returns "" if the UID can't be read: the agent goes on without it, and logs that.
func (a *Agent) identify(ctx context.Context, ask func(context.Context) (string, error)) string {
	identity := status.Identity{
		Timeout: a.options.RequestTimeout, Log: a.options.Log,
		Ask: func(ctx context.Context) (string, error) {
			uid, err := ask(ctx)
			if err == nil && !isClusterUID.MatchString(uid) {
				return "", fmt.Errorf("%q is no UID", uid)
			}
			return uid, err
		},
		GiveUp: func(asked int, err error) bool {
			if asked < identityTries && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				return false
			}
			a.options.Log.Warn("the UID of the namespace kube-system can't be read: another cluster of the same name will not be noticed; may the agent get that namespace?",
				zap.String("cluster", a.options.Cluster), zap.Error(err))
			return true
		},
	}
	uid, _ := identity.Await(ctx)
	return uid
}
