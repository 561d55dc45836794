package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// policy is the content security policy of the standalone page, as a tag, because a file server
// sends no header of ours. A worker has its own policy, none here, so that it may run
// WebAssembly.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"

// alone builds the playground as a page whose files refer to each other by relative
// paths.
func alone(folder string) error {
	root, err := filepath.Abs(web)
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	page := bundle(root)
	page.EntryPoints, page.Outdir = []string{"src/playground/alone.tsx"}, filepath.Join(folder, "assets")
	script := worker(root)
	script.Outdir = page.Outdir
	var meta metafile
	var made []api.OutputFile
	for _, o := range []api.BuildOptions{page, script} {
		result := api.Build(o)
		if len(result.Errors) > 0 {
			return errors.New("the playground was not bundled")
		}
		if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
			return fmt.Errorf("metafile: %w", err)
		}
		made = append(made, result.OutputFiles...)
	}
	if err := os.RemoveAll(page.Outdir); err != nil {
		return err
	}
	if err := os.MkdirAll(page.Outdir, 0o755); err != nil {
		return err
	}
	var main, style string
	for _, f := range made {
		if err := os.WriteFile(f.Path, f.Contents, 0o644); err != nil {
			return err
		}
	}
	for name, out := range meta.Outputs {
		if out.EntryPoint == "src/playground/alone.tsx" {
			main, style = path.Base(name), path.Base(out.CSSBundle)
		}
	}
	if main == "" || style == "" {
		return errors.New("the script or the style was not made")
	}
	licenses, err := meta.licenses(root)
	if err != nil {
		return err
	}
	icon, err := os.ReadFile(filepath.Join(root, "src/favicon.svg"))
	if err != nil {
		return err
	}
	html := strings.Join([]string{
		"<!doctype html>", `<html lang="en">`, "<head>", `<meta charset="utf-8">`,
		fmt.Sprintf(`<meta http-equiv="Content-Security-Policy" content=%q>`, policy),
		`<meta name="viewport" content="width=device-width, initial-scale=1">`, `<meta name="color-scheme" content="dark light">`,
		"<title>Playground – Setpoint</title>", `<link rel="icon" type="image/svg+xml" href="favicon.svg">`,
		fmt.Sprintf(`<link rel="stylesheet" href="assets/%s">`, style), fmt.Sprintf(`<script type="module" src="assets/%s"></script>`, main),
		"</head>", "<body>", `<div id="app"><noscript>The playground needs JavaScript and WebAssembly.</noscript></div>`, "</body>", "</html>", "",
	}, "\n")
	for name, text := range map[string]string{"index.html": html, "favicon.svg": string(icon), "LICENSES.txt": licenses} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
