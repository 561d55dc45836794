// Command esbuild bundles the page's sources in web/src into web/dist, which is committed and
// embedded, so that building Setpoint does not require Node.js. It runs in its own folder,
// and needs web/node_modules from `npm ci`.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/evanw/esbuild/pkg/api"
)

const (
	web  = "../../web"
	base = "/ui/"            // where the service serves the page
	mark = "<!-- assets -->" // of src/index.html
	// leastPacked is the size in bytes from which on a file is committed as brotli only (.br), because every
	// program with the page carries it.
	leastPacked = 8 << 10
)

func main() {
	address := flag.String("develop", "", "serve the page from its sources at this `address`, such as 127.0.0.1:8081, and bundle nothing")
	service := flag.String("service", "http://127.0.0.1:8080", "`URL` of the service that answers the calls of -develop")
	flag.Parse()
	make := run
	if *address != "" {
		make = func() error { return develop(*address, *service) }
	}
	if err := make(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	root, err := filepath.Abs(web)
	if err != nil {
		return err
	}
	options := bundle(root)
	options.EntryPoints = []string{"src/main.tsx"}
	// A plain script, which delays the first paint and imports nothing. Its name has no hash: all versions have it, and it
	// deals with files that an instance of another one does not have.
	early := options
	early.EntryPoints, early.EntryNames, early.Splitting, early.Format = []string{"src/early.ts"}, "[name]", false, api.FormatIIFE
	var meta metafile
	var made []api.OutputFile
	for _, o := range []api.BuildOptions{options, early, worker(root)} {
		result := api.Build(o)
		if len(result.Errors) > 0 {
			return errors.New("web was not bundled")
		}
		if err := json.Unmarshal([]byte(result.Metafile), &meta); err != nil {
			return fmt.Errorf("metafile: %w", err)
		}
		made = append(made, result.OutputFiles...)
	}
	page, err := meta.page(root)
	if err != nil {
		return err
	}
	licenses, err := meta.licenses(root)
	if err != nil {
		return err
	}
	dist := filepath.Join(root, "dist")
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dist, "assets"), 0o755); err != nil {
		return err
	}
	for _, f := range made {
		if len(f.Contents) >= leastPacked {
			f.Path, f.Contents = f.Path+".br", pack(f.Contents)
		}
		if err := os.WriteFile(f.Path, f.Contents, 0o644); err != nil {
			return err
		}
	}
	icon, err := os.ReadFile(filepath.Join(root, "src/favicon.svg"))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"index.html": page, "favicon.svg": string(icon), "LICENSES.txt": licenses} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack compresses a file for browsers; the service unpacks it for a client that does not take that.
func pack(content []byte) []byte {
	var out bytes.Buffer
	w := brotli.NewWriterLevel(&out, brotli.BestCompression)
	_, _ = w.Write(content) // memory never fails
	_ = w.Close()
	return out.Bytes()
}

// bundle is the configuration for the page's sources.
func bundle(root string) api.BuildOptions {
	return api.BuildOptions{
		AbsWorkingDir:     root,
		Outdir:            "dist/assets",
		EntryNames:        "[name]-[hash]",
		ChunkNames:        "[name]-[hash]",
		AssetNames:        "[name]-[hash]",
		Bundle:            true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Loader:            map[string]api.Loader{".wasm": api.LoaderFile, ".svg": api.LoaderFile},
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone, // LICENSES.txt has them
		Charset:           api.CharsetUTF8,
		Metafile:          true,
		LogLevel:          api.LogLevelWarning,
		Plugins:           []api.Plugin{schema(root)},
	}
}

// worker is the configuration for the script that runs the playground's engine. Its name has no
// hash: the page finds it beside its own scripts.
func worker(root string) api.BuildOptions {
	o := bundle(root)
	o.EntryPoints, o.EntryNames, o.Splitting, o.Format = []string{"src/playground/playground-worker.ts"}, "[name]", false, api.FormatIIFE
	return o
}

// metafile is esbuild's description of its output.
type metafile struct {
	Inputs  map[string]json.RawMessage `json:"inputs"`
	Outputs map[string]struct {
		EntryPoint string `json:"entryPoint"`
		CSSBundle  string `json:"cssBundle"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	} `json:"outputs"`
}

// page is index.html with the names of the output: the page's script, its static
// imports, its style, and the script that runs before anything is shown.
func (m metafile) page(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "src/index.html"))
	if err != nil {
		return "", err
	}
	var main, early, style string
	var preload []string
	for _, name := range slices.Sorted(maps.Keys(m.Outputs)) {
		out := m.Outputs[name]
		switch out.EntryPoint {
		case "src/early.ts":
			early = name
		case "src/main.tsx":
			main, style = name, out.CSSBundle
			for _, i := range out.Imports {
				if i.Kind == "import-statement" {
					preload = append(preload, i.Path)
				}
			}
		}
	}
	if main == "" || early == "" || style == "" {
		return "", errors.New("a script or the style was not made")
	}
	url := func(name string) string { return base + strings.TrimPrefix(name, "dist/") }
	var head strings.Builder
	fmt.Fprintf(&head, "<script src=%q></script>\n", url(early))
	fmt.Fprintf(&head, "<link rel=\"stylesheet\" href=%q>\n", url(style))
	for _, name := range preload {
		fmt.Fprintf(&head, "<link rel=\"modulepreload\" href=%q>\n", url(name))
	}
	fmt.Fprintf(&head, "<script type=\"module\" src=%q></script>", url(main))
	if !strings.Contains(string(text), mark) {
		return "", fmt.Errorf("src/index.html has no %s", mark)
	}
	return strings.Replace(string(text), mark, head.String(), 1), nil
}

// licenses are the licences of all bundled packages, by name.
func (m metafile) licenses(root string) (string, error) {
	packages := map[string]bool{}
	for input := range m.Inputs {
		if rest, ok := strings.CutPrefix(input, "node_modules/"); ok {
			name, rest, _ := strings.Cut(rest, "/")
			if strings.HasPrefix(name, "@") {
				second, _, _ := strings.Cut(rest, "/")
				name = path.Join(name, second)
			}
			packages[name] = true
		}
	}
	var all strings.Builder
	all.WriteString("The page at /ui/ has these packages in it.\n")
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		folder := filepath.Join(root, "node_modules", filepath.FromSlash(name))
		var about struct{ Version, License string }
		data, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(data, &about); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		found, err := filepath.Glob(filepath.Join(folder, "LICEN[CS]E*"))
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("%s %s has no license file", name, about.Version)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "\n%s\n%s %s, %s\n\n%s\n", strings.Repeat("-", 72), name, about.Version, cmp.Or(about.License, "see below"), strings.TrimSpace(string(text)))
	}
	return all.String(), nil
}
