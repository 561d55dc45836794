package nomad

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Acting returns what an agent of these namespaces, * for all, scales. A region is known by the ids
// of the keys with which its servers sign workload identities: each is random, all agents get the
// same, and no token is needed. Servers before 1.7 publish none: then there is nothing.
func Acting(ctx context.Context, client *api.Client, namespace string) ([]agent.Acting, error) {
	var published struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	_, err := client.Raw().Query("/.well-known/jwks.json", &published, (&api.QueryOptions{AllowStale: true}).WithContext(ctx))
	if err != nil {
		if status := statusOf(err); status == http.StatusNotFound || status == http.StatusForbidden {
			return nil, nil
		}
		return nil, err
	}
	var ids []string
	for _, key := range published.Keys {
		if key.ID != "" {
			ids = append(ids, key.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	acting := agent.Acting{Platform: "nomad " + strings.Join(ids, " ")}
	if namespace != "*" {
		acting.Namespaces = []string{namespace}
	}
	return []agent.Acting{acting}, nil
}
