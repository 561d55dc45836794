package server

import (
	"net/http"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"

	"github.com/setpoint-dev/setpoint/server/page"
)

// docsPage shows the API's description. It is not a template, because linking a template
// engine keeps every exported method of the program, which makes it half as large again.
const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="UTF-8">
  <meta name="viewport" content="width=device-width">
  <title>API · Setpoint</title>
  <link rel="stylesheet" type="text/css" href="swagger-ui.css">
  <link rel="icon" type="image/png" sizes="32x32" href="favicon-32x32.png">
  <link rel="icon" type="image/png" sizes="16x16" href="favicon-16x16.png">
  <link rel="stylesheet" type="text/css" href="page.css">
  <script src="page.js"></script>
</head>
<body>
<main>
<h1>The API of Setpoint</h1>
<div id="swagger-ui"></div>
</main>
<script src="swagger-ui-bundle.js"></script>
<script src="swagger-ui-standalone-preset.js"></script>
</body>
</html>
`

// docsStyle and docsScript are separate files, so that the page's content policy can
// forbid inline code.
const (
	docsStyle = `body { margin: 0; background: #fafafa; }
/* The description's own title is larger, and below it. */
main > h1 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
/* There is one server: that of this page. */
.swagger-ui .scheme-container .schemes > .schemes-server-container { display: none; }
/* The API has no links. */
.swagger-ui .response-col_links { display: none; }
/* Texts that are too light to read. */
.swagger-ui .info .title small { background: #4b5565; }
.swagger-ui .info .title small.version-stamp { background: #3f6900; }
.swagger-ui .info :is(.url, a) { color: #2a5fa5; }
.swagger-ui :is(.parameter__in, .prop-format) { color: #505050; }
.swagger-ui .btn.authorize { color: #1a6b46; border-color: #1a6b46; }
.swagger-ui .btn.authorize svg { fill: #1a6b46; }
.swagger-ui .btn.cancel { color: #b3261e; border-color: #b3261e; }
.swagger-ui .btn.execute { background: #1c63ad; border-color: #1c63ad; }
.swagger-ui .opblock.opblock-get .opblock-summary-method { background: #1c63ad; }
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: #1a6b46; }
.swagger-ui .opblock.opblock-put .opblock-summary-method { background: #8a5200; }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: #0d6b59; }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: #b3261e; }
/* Swagger UI has no dark colours: all but those of methods and examples give way to few. */
@media screen {
  .dark { color-scheme: dark; }
  .dark body { background: #0d1016; }
  .dark .swagger-ui { color: #e8ecf2; }
  .dark .swagger-ui :not(.opblock-summary-method, .microlight, .microlight *, .backdrop-ux) { color: inherit !important; background-color: transparent !important; border-color: #374252 !important; }
  .dark .swagger-ui :is(a, .info .title small):not(.nostyle) { color: #62b6ec !important; }
  .dark .swagger-ui :is(input, select, textarea) { background: #1a202b !important; appearance: auto !important; }
  .dark .swagger-ui :is(.modal-ux, .scheme-container) { background-color: #141922 !important; }
  .dark .swagger-ui :is(.parameter__name.required span, .errors h4), .dark .swagger-ui .parameter__name.required::after { color: #ff8f4d !important; }
  .dark .swagger-ui svg { fill: currentColor !important; }
}
@media (max-width: 720px) {
  .swagger-ui .wrapper { padding: 0 10px; }
  .swagger-ui :is(.opblock-tag, .opblock-summary-control, .opblock .opblock-section-header) { flex-wrap: wrap; }
  .swagger-ui .opblock-tag small { flex-basis: 100%; padding: 0; }
  .swagger-ui :is(.opblock-tag, .opblock-summary-path, .opblock-summary-description) { overflow-wrap: anywhere; }
  .swagger-ui .scheme-container .schemes { flex-wrap: wrap; }
}
`
	docsScript = `// The colours are those that were chosen on the page (web/src/theme.ts), else the system's.
var system = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  var chosen = null;
  try { chosen = localStorage.getItem("setpoint.theme"); } catch (e) { /* Storage is refused. */ }
  document.documentElement.className = chosen === "dark" || (chosen !== "light" && system.matches) ? "dark" : "";
}
paint();
system.addEventListener("change", paint);
addEventListener("storage", paint);
window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "..` + openapiPath + `",
    dom_id: "#swagger-ui",
    deepLinking: true,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl, function (system) {
      return { components: {
        Topbar: function () { return null; },
        // A link in the button that opens what it leads to: no key and no screen reader would tell one from the other.
        DeepLink: function (props) { return system.React.createElement("span", null, props.text); },
      } };
    }],
    layout: "StandaloneLayout",
    showExtensions: true,
    showCommonExtensions: true,
    validatorUrl: null,
    defaultModelsExpandDepth: -1,
    syntaxHighlight: { theme: "obsidian" },
  });
  // Who has no mouse scrolls examples with the keyboard, and who does not see is told what a field is for.
  new MutationObserver(function () {
    document.querySelectorAll("pre.microlight:not([tabindex])").forEach(function (e) { e.tabIndex = 0; });
    document.querySelectorAll("textarea.body-param__text:not([aria-label])").forEach(function (e) { e.setAttribute("aria-label", "Body of the request"); });
  }).observe(document.body, { childList: true, subtree: true });
};
`
)

// docs serves the page and its files.
func docs() http.Handler {
	mux := http.NewServeMux()
	for name, file := range map[string]struct{ contentType, text string }{
		"{$}":      {"text/html; charset=utf-8", docsPage},
		"page.css": {"text/css; charset=utf-8", docsStyle},
		"page.js":  {"text/javascript; charset=utf-8", docsScript},
	} {
		mux.HandleFunc(docsPath+"/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.contentType)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write([]byte(file.text))
		})
	}
	mux.Handle(docsPath+"/", http.StripPrefix(docsPath, statigz.FileServer(static.FS)))
	return page.WithHeaders(page.DocumentationPolicy, mux)
}
