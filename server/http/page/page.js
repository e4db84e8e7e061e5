// The page: its parts, and what its buttons do.
import {draw, stop} from "./drawing.js";
import {$} from "./elements.js";
import {setValues, watchForm} from "./form.js";
import {shownPicture} from "./gallery.js";
import {setInitImage, watchInitImage} from "./init_image.js";
import {showOperators, watchServer} from "./status.js";

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  draw();
});
$("stop").addEventListener("click", stop);
$("reuse").addEventListener("click", () => setValues(shownPicture().values));
$("continue").addEventListener("click", () => setInitImage(shownPicture().blob));
$("server").addEventListener("toggle", showOperators);
watchForm();
watchInitImage();
watchServer();
