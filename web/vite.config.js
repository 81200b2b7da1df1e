import { defineConfig } from "vite";

// `upliftmem serve` answers the API while `npm run dev` serves the page.
const server = process.env.UPLIFTMEM_URL ?? "http://127.0.0.1:7077";

export default defineConfig({
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // The program embeds these files by name; it tells browsers by their content whether they changed.
    assetsDir: "",
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
        codeSplitting: false,
      },
    },
  },
  server: { proxy: { "/v1": server, "/version": server } },
});
