// One script and one style sheet with fixed names, and each packed beside itself: the monitor
// embeds these files and serves them from memory.
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { defineConfig } from "vite";

const packed = {
  name: "packed",
  writeBundle(options) {
    for (const name of ["app.js", "app.css"]) {
      const path = `${options.dir}/assets/${name}`;
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
    }
  },
};

export default defineConfig({
  base: "./",
  plugins: [packed],
  build: {
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: { entryFileNames: "assets/app.js", assetFileNames: "assets/app.[ext]" },
    },
  },
});
