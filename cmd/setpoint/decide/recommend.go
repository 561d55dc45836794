//go:build !service

package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// maxRequestFile bounds a request that is read from a file.
const maxRequestFile = 256 << 20

func newRecommend() *cobra.Command {
	var file, of string
	output := cli.NewOutputFlag(cli.AsText, cli.AsJSON, cli.AsYAML)
	cmd := &cobra.Command{
		Use:   "recommend -f FILE",
		Short: "Compute one recommendation, in this process or on a server",
		Long: `Compute one recommendation for a RecommendRequest as the REST API takes it, in YAML or
JSON. The server of --server decides, or the one that the variable SETPOINT_SERVER names.
Without both, or with --server=, this process decides: its only history is the
previousStatus of the request, and it knows no overrides. The text says which of them
decided.`,
		Example: "  setpoint recommend -f request.yaml\n  setpoint recommend -f - -o json --server 127.0.0.1:9090 --target clusters/demo/namespaces/shop/targets/web < request.json",
		Args:    cobra.NoArgs,
	}
	server := connection.Bind(cmd.PersistentFlags(), "", "the server that decides (default: that of SETPOINT_SERVER, else this process decides)")
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` of the request, - for standard input (required)")
	cmd.Flags().StringVar(&of, "target", "", "`name` of the target, in place of the request's: clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, or CLUSTER/NAMESPACE/TARGET for short")
	cmd.Flags().VarP(output, "output", "o", "form of the answer: text, json or yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return cli.BadInput(fmt.Errorf("--file is required; see setpoint recommend --help"))
		}
		req, err := readRequest(cmd, file)
		if err != nil {
			return err
		}
		if of != "" {
			req.Target = target.Whole(of)
		}
		if output.Form == cli.AsText {
			req.Explain = true
		}
		resp, err := recommendOnce(cmd.Context(), server, req)
		if err != nil {
			return err
		}
		if output.Form == cli.AsText {
			options := cli.Terminal(cmd.OutOrStdout())
			options.Ahead = explaincmd.Ahead(req, resp)
			if err := explain.Write(cmd.OutOrStdout(), req, resp, options); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "\nDecided %s\n", decidedBy(server.Server, cmd.Flags().Changed("server")))
			return err
		}
		return cli.WriteMessage(cmd.OutOrStdout(), output.Form, resp)
	}
	return cmd
}

// decidedBy says who decided: a server, which a flag or else the environment names, or this process.
func decidedBy(server string, flag bool) string {
	switch {
	case server == "":
		return "in this process, which has no history and knows no overrides: --server asks a server"
	case flag:
		return "by the server " + printable.Text(server)
	}
	return "by the server " + printable.Text(server) + ", which SETPOINT_SERVER names: with --server= this process decides"
}

// manifestPattern matches what a manifest has and no request, also where it can't be parsed.
var manifestPattern = regexp.MustCompile(`(?m)^(\s*")?apiVersion"?:`)

// isManifest reports whether text, which is no request by the error, is a manifest.
func isManifest(text []byte, err error) bool {
	refused, _ := errors.AsType[*restjson.Error](err)
	return manifestPattern.Match(text) || refused != nil && slices.ContainsFunc(refused.Violations, func(v restjson.Violation) bool { return v.Field == "apiVersion" })
}

// readRequest reads a request in YAML or JSON, which is YAML too.
func readRequest(cmd *cobra.Command, name string) (*setpointv1.RecommendRequest, error) {
	text, err := cli.ReadWithin(cmd, name, maxRequestFile)
	if err != nil {
		return nil, err
	}
	req := &setpointv1.RecommendRequest{}
	if err := unmarshal(text, req); err != nil {
		if isManifest(text, err) {
			err = errors.New("is a manifest, not a request, which has spec, scale and readings beside each other; setpoint explain takes manifests (--hpa, --dump)")
		}
		return nil, cli.BadInput(fmt.Errorf("%s: %w", name, err))
	}
	return req, nil
}

// unmarshal reads a message in JSON or YAML. Text that begins like JSON and is invalid may
// still be YAML; if it is neither, the error explains the JSON.
func unmarshal(text []byte, msg proto.Message) error {
	begin := bytes.TrimSpace(text)
	looksLikeJSON := len(begin) == 0 || begin[0] == '{'
	if looksLikeJSON && (len(begin) == 0 || json.Valid(text)) {
		return restjson.Unmarshal(text, msg)
	}
	converted, err := document.JSON(text, maxRequestFile)
	switch {
	case err != nil && looksLikeJSON:
		return restjson.Unmarshal(text, msg)
	case err != nil:
		return err
	}
	return restjson.Unmarshal(converted, msg)
}

// recommendOnce calls the server, or decides locally without one.
func recommendOnce(ctx context.Context, server *connection.Settings, req *setpointv1.RecommendRequest) (resp *setpointv1.RecommendResponse, err error) {
	if server.Server == "" {
		return explaincmd.Decide(ctx, req)
	}
	err = server.Use(func(client *setpoint.Client) error {
		resp, err = client.Recommend(ctx, req)
		return err
	})
	return resp, err
}
